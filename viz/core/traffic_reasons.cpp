#include "viz/core/traffic_reasons.h"

#include <algorithm>
#include <cmath>

#include "viz/core/text.h"

namespace flashscope::viz {
namespace {

bool has(const Schedule& schedule, Tensor tensor) {
  const auto& tensors = schedule.tensors();
  return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
}

std::string bytes(std::int64_t value) { return size_text(static_cast<double>(value)); }

/// "once", "64 times", "32.5 times".
std::string times_text(double passes) {
  if (passes == 1) return "once";
  const bool whole = passes == std::floor(passes);
  return grouped_decimal(passes, whole ? 0 : passes < 10 ? 2 : 1) + " times";
}

/// "written once, read 64 times": passes of whole tensors.
std::string passes_text(std::int64_t size, const SmTraffic& sm) {
  std::string text;
  if (sm.write > 0) text = "written " + times_text(static_cast<double>(sm.write) / static_cast<double>(size));
  if (sm.read > 0)
    text += (text.empty() ? "read " : ", read ") + times_text(static_cast<double>(sm.read) / static_cast<double>(size));
  return text.empty() ? "not touched" : text;
}

/// For which tiles the reads of Q, K and V repeat, when their number is that of tiles (of the group of heads).
std::string per_tile_text(Tensor tensor, const Schedule& schedule, std::int64_t size, std::int64_t read) {
  const AttentionProblem& p = schedule.problem();
  const std::int64_t tr = num_tiles(p.seqlen_q, schedule.tile().br), tc = num_tiles(p.seqlen_k, schedule.tile().bc);
  if (p.pass == Pass::backward) return "";  // kernels with Q outside and with K outside both read it
  const bool is_query = tensor == Tensor::Q;
  if (has(schedule, Tensor::O_split)) {  // a CTA has a split of the keys, and the heads of a group together
    if (is_query && read == schedule.tile().splits * size && read > size) return ", once for each split";
    return "";
  }
  const std::int64_t tiles = is_query ? tc : tr;
  const std::int64_t group = is_query ? 1 : p.heads / p.kv_heads;
  const std::string owner = is_query ? "key tile (Tc = " + grouped(tc) : "query tile (Tr = " + grouped(tr);
  const std::string heads = group > 1 ? " of each of the " + grouped(group) + " heads that share it" : "";
  if (read <= size) return "";
  if (read == tiles * group * size) return ", once for each " + owner + ")" + heads;
  if (read < tiles * group * size) return ", once for each " + owner + ")" + heads + " that the mask leaves";
  return "";
}

}  // namespace

const std::vector<TensorGroup>& tensor_groups() {
  static const std::vector<TensorGroup> groups = {
      {"S and P", {Tensor::S, Tensor::P}},
      {"K and V", {Tensor::K, Tensor::V}},
      {"Q", {Tensor::Q}},
      {"O", {Tensor::O}},
      {"running m and l", {Tensor::M, Tensor::L}},
      {"LSE", {Tensor::LSE}},
      {"O and LSE of each split", {Tensor::O_split, Tensor::LSE_split}},
      {"Q, K, V in fp8", {Tensor::Q_fp8, Tensor::K_fp8, Tensor::V_fp8}},
      {"scales of fp8 tiles", {Tensor::Q_scale, Tensor::K_scale, Tensor::V_scale}},
      {"block table", {Tensor::block_table}},
      {"dP and dS", {Tensor::dP, Tensor::dS}},
      {"dO", {Tensor::dO}},
      {"dQ", {Tensor::dQ}},
      {"dQ, summed up", {Tensor::dQ_sum}},
      {"dK and dV", {Tensor::dK, Tensor::dV}},
      {"D", {Tensor::D}},
  };
  return groups;
}

GroupTraffic explain(const TensorGroup& group, const Schedule& schedule, const Prediction& prediction) {
  GroupTraffic result;
  std::vector<std::string> passes;
  std::vector<Tensor> present;
  std::int64_t size = 0;
  for (Tensor tensor : group.tensors) {
    if (!has(schedule, tensor)) continue;
    present.push_back(tensor);
    const auto t = static_cast<std::size_t>(tensor);
    const SmTraffic& sm = prediction.count.tensors[t];
    const HbmTraffic& hbm = prediction.tensors[t];
    result.sm.read += sm.read;
    result.sm.write += sm.write;
    result.hbm.read += hbm.read;
    result.hbm.write += hbm.write;
    const TensorShape rows = shape_of(tensor, schedule.problem(), schedule.tile());
    size = rows.pitch() * rows.rows * rows.heads;  // without what is spare of a last page
    // The engine says what was written back. Of bytes written once the rest is left; of others all, if none went.
    result.left_is_known = result.left_is_known && (sm.write <= size || hbm.write == 0);
    result.left_in_l2 += std::max<std::int64_t>(0, std::min(sm.write, size) - hbm.write);
    const bool is_input = tensor == Tensor::Q || tensor == Tensor::K || tensor == Tensor::V;
    passes.push_back(
        size == 0 ? "empty" : passes_text(size, sm) + (is_input ? per_tile_text(tensor, schedule, size, sm.read) : ""));
  }
  if (present.empty()) {
    result.sentences.push_back("Stays on chip: 0 B");
    return result;
  }

  const TensorShape shape = shape_of(present.front(), schedule.problem(), schedule.tile());
  const std::string product = grouped(shape.heads) + " × " + grouped(shape.rows) + " × " + grouped(shape.cols) + " × " +
                              std::to_string(shape.element_bytes) + " B = " + grouped(size) + " B";
  const bool alike = std::all_of(passes.begin(), passes.end(), [&](const std::string& p) { return p == passes[0]; });
  const std::string each = present.size() > 1 ? "Each " : "";
  if (present.size() > 1 && (layout_of(present.front()) == Layout::scores || !alike) && size > 0) {
    // The paper's four passes over N², and what each of them is.
    const double total = static_cast<double>(result.sm.read + result.sm.write) / static_cast<double>(size);
    std::string text =
        (total == 1 ? "1 pass" : grouped_decimal(total, total == std::floor(total) ? 0 : 1) + " passes") +
        " through memory over " + product + ":";
    for (std::size_t k = 0; k < present.size(); ++k)
      text += std::string(k == 0 ? " " : "; ") + name_of(present[k]) + " " + passes[k];
    result.sentences.push_back(text);
  } else {
    result.sentences.push_back(each + product + ": " + passes[0]);
  }
  // Read once and fetched once needs no further word.
  if (result.sm.read > 0 && (result.sm.read != result.hbm.read || result.sm.write > 0)) {
    const double absorbed = 100.0 * (1 - static_cast<double>(result.hbm.read) / static_cast<double>(result.sm.read));
    result.sentences.push_back("L2 absorbs " + grouped_decimal(absorbed, 1) + " % of the " + bytes(result.sm.read) +
                               " that the SMs read, " + bytes(result.hbm.read) + " come from HBM");
  }
  if (result.sm.write > 0)
    result.sentences.push_back("Of the " + bytes(result.sm.write) + " written, " + bytes(result.hbm.write) +
                               " reach HBM during the run");
  return result;
}

}  // namespace flashscope::viz
