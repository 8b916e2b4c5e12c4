#include "viz/io/prediction_io.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <memory>
#include <vector>

#include "sim/error.h"
#include "viz/io/block_mask_io.h"
#include "viz/io/json_numbers.h"
#include "viz/io/version.h"

namespace flashscope {
namespace {

constexpr double kPicosecondsPerMicrosecond = 1e6;

/// The numbers that a whole run and each of its kernels have alike.
struct Numbers {
  const KernelCount& count;
  const HbmTraffic& hbm;
  const std::array<HbmTraffic, kNumTensors>& tensors;
  std::int64_t hbm_dirty_bytes;
  Picoseconds time;
};

Numbers numbers_of(const Prediction& run) { return {run.count, run.hbm, run.tensors, run.hbm_dirty_bytes, run.time}; }

/// A kernel's time includes the launch gap before it, so that the kernels add up to the run. A kernel without CTAs is not
/// launched: it takes no time, and begins and ends at 0.
Numbers numbers_of(const Prediction& run, std::size_t kernel) {
  const KernelPrediction& k = run.kernels[kernel];
  Picoseconds before = 0;
  for (std::size_t i = 0; i < kernel; ++i) before = std::max(before, run.kernels[i].end);
  return {k.count, k.hbm, k.tensors, k.hbm_dirty_bytes, std::max<Picoseconds>(0, k.end - before)};
}

double microseconds(Picoseconds time) { return static_cast<double>(time) / kPicosecondsPerMicrosecond; }

void put_traffic(Json& object, const Numbers& n) {
  object["sm_read_bytes"] = n.count.sm.read;
  object["sm_write_bytes"] = n.count.sm.write;
  object["sm_sector_read_bytes"] = n.count.sm.sector_read;
  object["sm_sector_write_bytes"] = n.count.sm.sector_write;
  object["hbm_read_bytes"] = n.hbm.read;
  object["hbm_write_bytes"] = n.hbm.write;
  object["hbm_dirty_bytes"] = n.hbm_dirty_bytes;
}

Json tensors_to_json(const Schedule& schedule, const Numbers& n) {
  Json tensors = Json::object();
  for (Tensor tensor : schedule.tensors()) {
    const auto t = static_cast<std::size_t>(tensor);
    tensors[name_of(tensor)] = {{"sm_read_bytes", n.count.tensors[t].read},
                                {"sm_write_bytes", n.count.tensors[t].write},
                                {"hbm_read_bytes", n.tensors[t].read},
                                {"hbm_write_bytes", n.tensors[t].write}};
  }
  return tensors;
}

int fewest_ctas_per_sm(const Prediction& prediction) {
  int fewest = 0;
  for (const KernelPrediction& kernel : prediction.kernels)
    fewest = fewest == 0 ? kernel.ctas_per_sm : std::min(fewest, kernel.ctas_per_sm);
  return fewest;
}

/// One CSV line: fields joined by commas.
class CsvLine {
 public:
  CsvLine& text(const std::string& value) {
    m_line += (m_line.empty() ? "" : ",") + csv_field(value);
    return *this;
  }
  CsvLine& number(std::int64_t value) { return text(std::to_string(value)); }
  CsvLine& number(double value) { return text(number_text(value)); }
  std::string end() const { return m_line + "\n"; }

 private:
  std::string m_line;
};

constexpr const char* kColumns =
    "algorithm,pass,kernel,batch,heads,kv_heads,seqlen_q,seqlen_k,head_dim,dtype,causal,window_left,window_right,"
    "block_mask,sequences,scale,"
    "br,bc,stages,splits,page_size,ctas_per_sm,gpu,start,flops,flops_executed,exps,peak_memory_bytes,time_us,"
    "sm_read_bytes,sm_write_bytes,sm_sector_read_bytes,sm_sector_write_bytes,"
    "hbm_read_bytes,hbm_write_bytes,hbm_dirty_bytes,paper_bytes,compulsory_bytes,version,commit";

}  // namespace

Json problem_to_json(const AttentionProblem& p) {
  Json object = {{"batch", p.batch},
          {"heads", p.heads},
          {"kv_heads", p.kv_heads},
          {"seqlen_q", p.seqlen_q},
          {"seqlen_k", p.seqlen_k},
          {"head_dim", p.head_dim},
          {"dtype", name_of(p.dtype)},
          {"causal", p.causal},
          {"window", {p.window_left, p.window_right}},
          {"block_mask", nullptr},
          {"scale", json_number(p.scale())}};
  if (p.block_mask) {
    const BlockMask& mask = *p.block_mask.mask;
    object["block_mask"] = {{"name", mask.name},
                            {"block", {mask.block_q, mask.block_k}},
                            {"blocks", {mask.rows, mask.cols}},
                            {"kept", mask.kept_blocks()}};
  }
  if (!p.cu_seqlens_q.empty()) {
    object["cu_seqlens_q"] = p.cu_seqlens_q;
    object["cu_seqlens_k"] = p.cu_seqlens_k;
  }
  return object;
}

namespace {

/// Made again from its preset; the counts that were written beside the name must agree.
SharedBlockMask block_mask_read_back(const Json& object, const AttentionProblem& p, const std::string& place) {
  if (!object.is_object()) throw Error(ErrorKind::input, place + ": expected null or an object");
  const std::string name = string_member(object, "name", place);
  if (!is_block_preset(name))
    throw Error(ErrorKind::unsupported, place + ".name: '" + name + "' is a file; presets alone are read back");
  try {
    const BlockMask mask = load_block_mask(place + ".name", name, p.seqlen_q, p.seqlen_k);
    const Json agreed = {{"block", {mask.block_q, mask.block_k}},
                         {"blocks", {mask.rows, mask.cols}},
                         {"kept", mask.kept_blocks()}};
    for (const auto& [key, value] : agreed.items())
      if (required_member(object, key.c_str(), place) != value)
        throw Error(ErrorKind::input, place + "." + key + ": '" + name + "' makes " + value.dump());
    return {std::make_shared<const BlockMask>(mask)};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::usage) throw;
    throw Error(ErrorKind::input, error.what());
  }
}

/// Empty where there are none.
std::vector<int> offsets_from_json(const Json& object, const char* key, const std::string& place) {
  const auto found = object.find(key);
  if (found == object.end()) return {};
  std::vector<int> offsets;
  const bool is_list = found->is_array();
  for (const Json& offset : is_list ? *found : Json::array({nullptr})) {
    const bool valid = offset.is_number_integer() && offset.get<double>() >= 0 && offset.get<double>() <= kMaxSeqlen;
    if (!valid)
      throw Error(ErrorKind::input, place + "." + key + ": expected a list of integers, 0 … " + std::to_string(kMaxSeqlen));
    offsets.push_back(offset.get<int>());
  }
  return offsets;
}

}  // namespace

AttentionProblem problem_from_json(const Json& object, const std::string& place) {
  const auto integer = [&](const char* key, std::int64_t lo, std::int64_t hi) {
    return static_cast<int>(integer_member(object, key, lo, hi, place));
  };
  AttentionProblem p;
  p.batch = integer("batch", 0, kMaxHeads);
  p.heads = integer("heads", 1, kMaxHeads);
  p.kv_heads = integer("kv_heads", 1, kMaxHeads);
  p.seqlen_q = integer("seqlen_q", 0, kMaxSeqlen);
  p.seqlen_k = integer("seqlen_k", 0, kMaxSeqlen);
  p.head_dim = integer("head_dim", 1, kMaxHeadDim);
  p.causal = bool_member(object, "causal", place);
  const Json& window = required_member(object, "window", place);
  const auto bound = [&](std::size_t side) {
    const bool valid = window.is_array() && window.size() == 2 && window[side].is_number_integer() &&
                       window[side].get<double>() >= -1 && window[side].get<double>() <= INT32_MAX;
    if (!valid) throw Error(ErrorKind::input, place + ".window: expected two integers, -1 … " + std::to_string(INT32_MAX));
    return window[side].get<int>();
  };
  p.window_left = bound(0);
  p.window_right = bound(1);
  if (const auto mask = object.find("block_mask"); mask != object.end() && !mask->is_null())
    p.block_mask = block_mask_read_back(*mask, p, place + ".block_mask");
  p.cu_seqlens_q = offsets_from_json(object, "cu_seqlens_q", place);
  p.cu_seqlens_k = offsets_from_json(object, "cu_seqlens_k", place);
  p.softmax_scale = number_member(object, "scale", place);
  try {
    p.dtype = dtype_from_name(string_member(object, "dtype", place));
    validate(p);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::usage) throw;
    throw Error(ErrorKind::input, place + ": " + error.what());
  }
  return p;
}

Json tile_to_json(const TileShape& tile) {
  Json object = {{"br", tile.br}, {"bc", tile.bc}, {"stages", tile.stages}};
  if (tile.backward_keys) object["kv_order"] = "backward";
  if (tile.splits != 1) object["splits"] = tile.splits;
  if (tile.page_size != 0) object["page_size"] = tile.page_size;
  if (tile.whole_tiles) object["whole_tiles"] = true;
  if (tile.any_order) object["any_order"] = true;
  return object;
}

Json prediction_to_json(const Schedule& schedule, const Machine& machine, Start start, const Prediction& prediction) {
  const Numbers run = numbers_of(prediction);
  Json document;
  document["algorithm"] = schedule.algorithm();
  document["pass"] = name_of(schedule.problem().pass);
  document["problem"] = problem_to_json(schedule.problem());
  document["tile"] = tile_to_json(schedule.tile());
  document["tile"]["ctas_per_sm"] = fewest_ctas_per_sm(prediction);
  document["gpu"] = machine.name;
  document["start"] = name_of(start);
  document["flops"] = run.count.flops;
  document["flops_executed"] = run.count.flops_executed;
  document["exps"] = run.count.exps;
  document["peak_memory_bytes"] = schedule.peak_memory_bytes();
  document["time_us"] = json_number(microseconds(run.time));
  put_traffic(document, run);
  document["paper_bytes"] = schedule.closed_form().paper_bytes;
  document["compulsory_bytes"] = compulsory_bytes(schedule.problem());
  document["tensors"] = tensors_to_json(schedule, run);
  document["kernels"] = Json::array();
  for (std::size_t i = 0; i < prediction.kernels.size(); ++i) {
    const Numbers numbers = numbers_of(prediction, i);
    const KernelLaunch& launch = schedule.kernels()[i];
    Json kernel;
    kernel["name"] = launch.name;
    kernel["grid"] = {launch.ctas(), 1, 1};
    kernel["ctas_per_sm"] = prediction.kernels[i].ctas_per_sm;
    kernel["flops"] = numbers.count.flops;
    kernel["flops_executed"] = numbers.count.flops_executed;
    kernel["exps"] = numbers.count.exps;
    kernel["time_us"] = json_number(microseconds(numbers.time));
    put_traffic(kernel, numbers);
    kernel["tensors"] = tensors_to_json(schedule, numbers);
    document["kernels"].push_back(std::move(kernel));
  }
  // Said only where it is so: time and HBM traffic are then continued from a run of fewer heads (sim/engine/engine.h).
  if (prediction.simulated_heads < schedule.problem().num_heads())
    document["simulated_heads"] = prediction.simulated_heads;
  return document;
}

std::string prediction_csv_header() { return std::string(kColumns) + "\n"; }

std::string prediction_csv_rows(const Schedule& schedule, const Machine& machine, Start start,
                                const Prediction& prediction, bool kernels) {
  const AttentionProblem& p = schedule.problem();
  const TileShape& tile = schedule.tile();
  // Memory and the two lower counts are of the whole algorithm: their fields are empty in a kernel's line.
  const auto line = [&](const std::string& kernel, int ctas_per_sm, const Numbers& n, bool whole) {
    const auto of_whole = [&](std::int64_t value) { return whole ? std::to_string(value) : std::string(); };
    CsvLine csv;
    csv.text(schedule.algorithm()).text(name_of(p.pass)).text(kernel);
    csv.number(std::int64_t{p.batch}).number(std::int64_t{p.heads}).number(std::int64_t{p.kv_heads});
    csv.number(std::int64_t{p.seqlen_q}).number(std::int64_t{p.seqlen_k}).number(std::int64_t{p.head_dim});
    csv.text(name_of(p.dtype)).text(p.causal ? "true" : "false");
    csv.number(std::int64_t{p.window_left}).number(std::int64_t{p.window_right});
    csv.text(p.block_mask ? p.block_mask.mask->name : "");
    csv.number(p.cu_seqlens_q.empty() ? std::int64_t{p.batch} : std::ssize(p.cu_seqlens_q) - 1).number(p.scale());
    csv.number(std::int64_t{tile.br}).number(std::int64_t{tile.bc}).number(std::int64_t{tile.stages});
    csv.number(std::int64_t{tile.splits}).number(std::int64_t{tile.page_size});
    csv.number(std::int64_t{ctas_per_sm}).text(machine.name).text(name_of(start));
    csv.number(n.count.flops).number(n.count.flops_executed).number(n.count.exps);
    csv.text(of_whole(schedule.peak_memory_bytes())).number(microseconds(n.time));
    csv.number(n.count.sm.read).number(n.count.sm.write).number(n.count.sm.sector_read).number(n.count.sm.sector_write);
    csv.number(n.hbm.read).number(n.hbm.write).number(n.hbm_dirty_bytes);
    csv.text(of_whole(schedule.closed_form().paper_bytes)).text(of_whole(compulsory_bytes(p)));
    csv.text(version()).text(commit());
    return csv.end();
  };
  std::string rows = line("all", fewest_ctas_per_sm(prediction), numbers_of(prediction), true);
  if (kernels)
    for (std::size_t i = 0; i < prediction.kernels.size(); ++i)
      rows += line(schedule.kernels()[i].name, prediction.kernels[i].ctas_per_sm, numbers_of(prediction, i), false);
  return rows;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace flashscope
