// simulate(): all CTAs where the budget allows, with loops taken in larger steps if need be, else two runs with fewer
// heads and a straight line through them.
#include <algorithm>
#include <numeric>

#include "sim/engine/run.h"
#include "sim/schedule/algorithms.h"

namespace flashscope {
namespace {

/// Steps that are left of a kernel's longest loop.
constexpr std::int64_t kFinestLoop = 1024, kCoarsestLoop = 64;

/// small + (large - small) · (heads - small_heads) / (large_heads - small_heads), and never below what `large` saw.
struct Line {
  std::int64_t small_heads, large_heads, heads;
  std::int64_t operator()(std::int64_t small, std::int64_t large) const {
    return large + std::max<std::int64_t>(0, large - small) / (large_heads - small_heads) * (heads - large_heads);
  }
};

void continue_line(const Line& line, const KernelPrediction& small, const KernelPrediction& large,
                   KernelPrediction& into) {
  into = large;
  into.hbm.read = line(small.hbm.read, large.hbm.read);
  for (std::size_t t = 0; t < kNumTensors; ++t)
    into.tensors[t] = {line(small.tensors[t].read, large.tensors[t].read),
                       line(small.tensors[t].write, large.tensors[t].write)};
  into.l2_read_hit_bytes = line(small.l2_read_hit_bytes, large.l2_read_hit_bytes);
  into.begin = line(small.begin, large.begin);
  into.end = line(small.end, large.end);
  into.cta_time = 0;
  for (std::size_t r = 0; r < kNumReasons; ++r) {
    into.reasons[r] = line(small.reasons[r], large.reasons[r]);
    into.cta_time += into.reasons[r];
  }
}

/// Writes continue the line of what a kernel produced: written back or still dirty. The larger run's dirty bytes stay
/// in L2, the rest has gone to HBM; it is credited to the tensor of which the kernel writes most.
void continue_writes(const Line& line, const Prediction& small, const Prediction& large, Prediction& all) {
  std::int64_t small_before = 0, large_before = 0;  // dirty when the kernel started
  for (std::size_t k = 0; k < all.kernels.size(); ++k) {
    const auto produced = [k](const Prediction& p, std::int64_t before) {
      return p.kernels[k].hbm.write + p.kernels[k].hbm_dirty_bytes - before;
    };
    KernelPrediction& kernel = all.kernels[k];
    const std::int64_t kept = kernel.hbm_dirty_bytes - large_before;
    kernel.hbm.write = line(produced(small, small_before), produced(large, large_before)) - kept;
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

Prediction simulate_some_heads(const Schedule& schedule, const Machine& machine, const RunOptions& options,
                               std::int64_t ops_per_head, const Grain& grain) {
  AttentionProblem part = schedule.problem();
  const int group = part.heads / part.kv_heads;  // query heads that share K and V stay together
  const std::int64_t heads = part.num_heads();
  const auto run_heads = [&](std::int64_t some) {
    part.batch = 1;
    part.heads = static_cast<int>(some);
    part.kv_heads = static_cast<int>(some / group);
    return simulate_all(*make_schedule(schedule.algorithm(), part, schedule.tile()), machine, options, grain);
  };
  // Whole waves, or their rounding would bend the line: as many groups of heads as fill the GPU a whole number of
  // times, where a few do, else the fewest that fill it once; for every kernel.
  std::int64_t wave = group;
  for (const KernelLaunch& launch : schedule.kernels()) {
    const std::int64_t slots =
        static_cast<std::int64_t>(machine.num_sms.value) * occupancy(launch.resources, machine).ctas_per_sm;
    const std::int64_t ctas = std::max<std::int64_t>(1, launch.ctas() * group / heads);
    const std::int64_t exact = std::lcm(std::max<std::int64_t>(1, slots), ctas) / ctas;
    const std::int64_t groups = exact <= 8 ? exact : (slots + ctas - 1) / ctas;
    wave = std::max(wave, groups * group);
  }
  // The budget, both runs together; four waves at least.
  const std::int64_t waves =
      std::max<std::int64_t>(4, options.op_budget / std::max<std::int64_t>(1, ops_per_head * wave) * 2 / 3);
  const std::int64_t large_heads = std::min(heads, waves * wave);
  const std::int64_t small_heads = waves / 2 * wave;
  if (large_heads == heads) return simulate_all(schedule, machine, options, grain);
  const Prediction small = run_heads(small_heads), large = run_heads(large_heads);
  const Line line{small_heads, large_heads, heads};

  Prediction all = large;
  const Count counted = count(schedule);
  all.count = counted.total;
  for (std::size_t k = 0; k < all.kernels.size(); ++k) {
    continue_line(line, small.kernels[k], large.kernels[k], all.kernels[k]);
    all.kernels[k].count = counted.kernels[k];
  }
  continue_writes(line, small, large, all);
  add_up(all);
  all.operations = small.operations + large.operations;
  all.time = all.kernels.empty() ? 0 : all.kernels.back().end;
  return all;
}

}  // namespace

Prediction simulate(const Schedule& schedule, const Machine& machine, const RunOptions& options) {
  const std::vector<KernelCount> kernels = count(schedule).kernels;
  const auto steps_with = [&](const Grain& grain) {
    std::int64_t steps = 0;
    for (std::size_t k = 0; k < kernels.size(); ++k) steps += kernels[k].ops / grain.of_kernel(static_cast<int>(k));
    return steps;
  };
  Grain grain;
  if (!options.trace)
    for (std::int64_t loop = kFinestLoop; steps_with(grain) > options.op_budget / 2 && loop >= kCoarsestLoop; loop /= 2)
      grain = grain_of(schedule, machine, loop);
  const std::int64_t steps = steps_with(grain);
  if (steps <= options.op_budget) return simulate_all(schedule, machine, options, grain);
  return simulate_some_heads(schedule, machine, options, steps / std::max(1, schedule.problem().num_heads()), grain);
}

}  // namespace flashscope
