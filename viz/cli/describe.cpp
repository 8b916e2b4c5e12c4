#include "viz/cli/describe.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "sim/schedule/algorithms.h"
#include "viz/cli/format.h"
#include "viz/cli/table.h"
#include "viz/io/json_numbers.h"

namespace flashscope {

std::string describe(const AttentionProblem& p) {
  std::string text = formatted("batch {}, heads {}", grouped(p.batch), grouped(p.heads));
  if (p.kv_heads != p.heads) text += formatted(", kv_heads {}", grouped(p.kv_heads));
  if (p.seqlen_q == p.seqlen_k)
    text += formatted(", seqlen {}", grouped(p.seqlen_q));
  else
    text += formatted(", seqlen_q {}, seqlen_k {}", grouped(p.seqlen_q), grouped(p.seqlen_k));
  text += formatted(", head_dim {}, {}", p.head_dim, name_of(p.dtype));
  if (p.pass == Pass::backward) text += ", backward";
  if (!p.cu_seqlens_q.empty()) text += formatted(", {} packed sequences", grouped(std::ssize(p.cu_seqlens_q) - 1));
  if (p.block_mask) text += ", block mask " + p.block_mask.mask->name;
  const MaskShape mask = p.mask();
  if (mask.left < 0 && mask.right < 0) return text + ", no mask";
  if (mask.left < 0 && mask.right == 0) return text + ", causal";
  return text + formatted(", window {},{}", mask.left, mask.right);
}

std::string describe(const TileShape& tile) {
  std::string text = formatted("Br {}, Bc {}", tile.br, tile.bc);
  if (tile.stages != 1) text += formatted(", stages {}", tile.stages);
  if (tile.splits != 1) text += formatted(", splits {}", tile.splits);
  if (tile.page_size != 0) text += formatted(", pages of {} keys", tile.page_size);
  if (tile.whole_tiles) text += ", whole tiles";
  if (tile.any_order) text += ", dQ in any order";
  return text;
}

std::string describe_reasons(const KernelPrediction& kernel) {
  if (kernel.cta_time == 0) return "n/a";
  std::vector<std::pair<Picoseconds, Reason>> shares;
  for (int r = 0; r < kNumReasons; ++r)
    shares.emplace_back(kernel.reasons[static_cast<std::size_t>(r)], static_cast<Reason>(r));
  std::stable_sort(shares.begin(), shares.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (const auto& [time, reason] : shares) {
    const double percent = 100.0 * static_cast<double>(time) / static_cast<double>(kernel.cta_time);
    if (percent < 0.05) break;
    text += formatted("{}{} {:.1f} %", text.empty() ? "" : ", ", name_of(reason), percent);
  }
  return text;
}

std::string extrapolation_note(const Schedule& schedule, const Prediction& prediction) {
  const int heads = schedule.problem().num_heads();
  if (prediction.simulated_heads >= heads) return "";
  if (prediction.simulated_heads == 0)
    return "HBM traffic and time: the first CTAs of each kernel simulated, the rest continued in a straight line; counts "
           "are exact.";
  return formatted("HBM traffic and time: from {} of {} heads, continued to all; counts are exact.",
                   grouped(prediction.simulated_heads), grouped(heads));
}

Json measured_json(const kernels::Measured<std::int64_t>& measured) {
  return measured.value ? Json(*measured.value) : Json("unavailable (" + measured.reason + ")");
}

Json measured_json(const kernels::Measured<double>& measured) {
  return measured.value ? json_number(*measured.value) : Json("unavailable (" + measured.reason + ")");
}

kernels::Measurement unmeasured(const std::string& reason) {
  using Bytes = kernels::Measured<std::int64_t>;
  kernels::Measurement m;
  m.time_us = m.sm_clock_mhz = kernels::Measured<double>::unavailable(reason);
  m.sm_read_bytes = m.sm_write_bytes = Bytes::unavailable(reason);
  m.hbm_read_bytes = m.hbm_write_bytes = m.hbm_write_floor_bytes = Bytes::unavailable(reason);
  m.hbm_background_read_bytes = m.hbm_background_write_bytes = Bytes::unavailable(reason);
  return m;
}

Recorded find_recorded(const Machine& machine, const Schedule& schedule, Start start, const std::string& file) {
  std::vector<Recording> recordings;
  if (!file.empty())
    recordings.push_back(load_recording(file));
  else
    for (const std::string& name : recording_names()) recordings.push_back(shipped_recording(name));
  if (algorithm_named(schedule.algorithm(), schedule.problem().pass).rung.empty())
    return {false, unmeasured("no kernel yet"), "no kernel yet"};
  std::string reason = (file.empty() ? "no recording of " : file + " is no recording of ") + machine.name +
                       (file.empty() ? " is shipped" : "");
  for (const Recording& recording : recordings) {
    if (recording.machine != machine.name) continue;
    if (const RecordingRow* row = find_row(recording, schedule.problem(), schedule.algorithm(), schedule.tile(), start))
      return {true, row->measured, "recorded on " + recording.gpu + ", " + recording.date};
    reason = "the recording of " + machine.name + " has no row for this setting";
  }
  return {false, unmeasured(reason), reason};
}

}  // namespace flashscope
