#include "sim/engine/line.h"

#include <algorithm>

namespace flashscope {
namespace {

void continue_line(const Line& line, const KernelPrediction& small, const KernelPrediction& large,
                   KernelPrediction& into) {
  into.hbm.read = line(small.hbm.read, large.hbm.read);
  for (std::size_t t = 0; t < kNumTensors; ++t)
    into.tensors[t] = {line(small.tensors[t].read, large.tensors[t].read),
                       line(small.tensors[t].write, large.tensors[t].write)};
  into.l2_read_hit_bytes = line(small.l2_read_hit_bytes, large.l2_read_hit_bytes);
  into.end = into.begin + line(small.end - small.begin, large.end - large.begin);
  into.cta_time = 0;
  for (std::size_t r = 0; r < kNumReasons; ++r) {
    into.reasons[r] = line(small.reasons[r], large.reasons[r]);
    into.cta_time += into.reasons[r];
  }
}

/// Writes continue the line of what a kernel produced: written back or still dirty. The larger run's dirty bytes stay
/// in L2, the rest has gone to HBM; it is credited to the tensor of which the kernel writes most.
void continue_writes(const std::vector<Line>& lines, const Prediction& small, const Prediction& large, Prediction& all) {
  std::int64_t small_before = 0, large_before = 0;  // dirty when the kernel started
  for (std::size_t k = 0; k < all.kernels.size(); ++k) {
    const auto produced = [k](const Prediction& p, std::int64_t before) {
      return p.kernels[k].hbm.write + p.kernels[k].hbm_dirty_bytes - before;
    };
    KernelPrediction& kernel = all.kernels[k];
    const std::int64_t kept = kernel.hbm_dirty_bytes - large_before;
    kernel.hbm.write = lines[k](produced(small, small_before), produced(large, large_before)) - kept;
    std::int64_t credited = 0;
    std::size_t most = 0;
    for (std::size_t t = 0; t < kNumTensors; ++t) {
      credited += kernel.tensors[t].write;
      if (kernel.count.tensors[t].write > kernel.count.tensors[most].write) most = t;
    }
    kernel.tensors[most].write += kernel.hbm.write - credited;
    small_before = small.kernels[k].hbm_dirty_bytes;
    large_before = large.kernels[k].hbm_dirty_bytes;
  }
}

}  // namespace

Prediction continued(const std::vector<Line>& lines, const Prediction& small, const Prediction& large,
                     const Count& counted) {
  Prediction all = large;
  all.count = counted.total;
  for (std::size_t k = 0; k < all.kernels.size(); ++k) {
    KernelPrediction& kernel = all.kernels[k];
    if (k > 0) kernel.begin = all.kernels[k - 1].end + (large.kernels[k].begin - large.kernels[k - 1].end);  // the gap
    continue_line(lines[k], small.kernels[k], large.kernels[k], kernel);
    kernel.count = counted.kernels[k];
  }
  continue_writes(lines, small, large, all);
  add_up(all);
  all.operations = small.operations + large.operations;
  all.time = all.kernels.empty() ? 0 : all.kernels.back().end;
  return all;
}

}  // namespace flashscope
