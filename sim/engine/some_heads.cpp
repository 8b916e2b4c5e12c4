// Heads repeat each other: two runs with fewer of them, and a straight line through both.
#include <algorithm>
#include <numeric>

#include "sim/engine/line.h"
#include "sim/engine/run.h"
#include "sim/schedule/algorithms.h"

namespace flashscope {
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
  return continued(std::vector<Line>(schedule.kernels().size(), {small_heads, large_heads, heads}), small, large,
                   counted_for(schedule, options));
}

}  // namespace flashscope
