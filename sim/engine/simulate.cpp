// simulate(): which of its means a problem needs to stay within the budget.
#include <algorithm>

#include "sim/engine/run.h"

namespace flashscope {
namespace {

/// Steps that are left of a kernel's longest loop.
constexpr std::int64_t kFinestLoop = 1024, kCoarsestLoop = 64;
/// Two runs of some heads are the fewest that say what one head adds: four waves and two.
constexpr std::int64_t kFewestHeads = 6;

std::int64_t steps_of(const std::vector<KernelCount>& kernels, const Grain& grain) {
  std::int64_t steps = 0;
  for (std::size_t k = 0; k < kernels.size(); ++k) steps += kernels[k].ops / grain.of_kernel(static_cast<int>(k));
  return steps;
}

/// The finest grain within its part of the budget.
Grain grain_for(const Schedule& schedule, const Machine& machine, const std::vector<KernelCount>& kernels,
                std::int64_t budget) {
  Grain grain;
  for (std::int64_t loop = kFinestLoop; loop >= kCoarsestLoop && steps_of(kernels, grain) > budget / 2; loop /= 2)
    grain = grain_of(schedule, machine, loop);
  grain.score_tiles = score_tiles(schedule, machine);
  return grain;
}

/// No mask makes one CTA's work differ from another's.
bool are_ctas_alike(const Schedule& schedule) {
  const AttentionProblem& p = schedule.problem();
  return !p.is_sparse() && !p.dense_mask && p.mask().left < 0 && p.mask().right < 0 && p.pass == Pass::forward &&
         schedule.sector_aligned();
}

}  // namespace

Prediction simulate(const Schedule& schedule, const Machine& machine, const RunOptions& options) {
  const std::vector<KernelCount> kernels = count(schedule).kernels;
  const Grain grain = options.trace ? Grain{} : grain_for(schedule, machine, kernels, options.op_budget);
  const std::int64_t steps = steps_of(kernels, grain);
  if (steps <= options.op_budget) return simulate_all(schedule, machine, options, grain);
  const std::int64_t steps_per_head = steps / std::max(1, schedule.problem().num_heads());
  if (steps_per_head * kFewestHeads > options.op_budget && are_ctas_alike(schedule))
    return simulate_some_ctas(schedule, machine, options, grain);
  return simulate_some_heads(schedule, machine, options, steps_per_head, grain);
}

}  // namespace flashscope
