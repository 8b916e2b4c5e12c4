// simulate(): which of its means a problem needs to stay within the budget.
#include <algorithm>
#include <cstdlib>

#include "sim/engine/run.h"
#include "sim/error.h"

namespace flashscope {
namespace {

/// Steps that are left of a kernel's longest loop, where the run tile by tile is affordable, and where it is not.
constexpr std::int64_t kCoarsestCompared = 64, kFinestCompared = 128, kCoarsestLoop = 64, kFinestLoop = 1024;
/// Blocks of scores are so many times wider where the whole is continued from its first CTAs.
constexpr int kWiderScores = 4;
/// Two runs of some heads are the fewest that say what one head adds: four waves and two.
constexpr std::int64_t kFewestHeads = 6;
/// A kernel has so many waves where its last one may find SMs with fewer CTAs than the others: which SMs get one CTA and
/// which two hangs on who is done first, and is worth up to a third of a wave.
constexpr std::int64_t kManyWaves = 32;

std::int64_t steps_of(const std::vector<KernelCount>& kernels, const Grain& grain) {
  std::int64_t steps = 0;
  for (std::size_t k = 0; k < kernels.size(); ++k) steps += kernels[k].ops / grain.of_kernel(static_cast<int>(k));
  return steps;
}

/// grain_of(), which walks whole CTAs: asks first whether the run is still wanted.
Grain asked_grain(const Schedule& schedule, const Machine& machine, const RunOptions& options, std::int64_t loop) {
  if (options.progress && !options.progress(0)) throw Error(ErrorKind::internal, "cancelled");
  return grain_of(schedule, machine, loop);
}

/// The finest grain within the budget.
Grain grain_for(const Schedule& schedule, const Machine& machine, const RunOptions& options,
                const std::vector<KernelCount>& kernels) {
  const std::int64_t budget = options.op_budget;
  Grain grain;
  for (std::int64_t loop = kFinestLoop; loop >= kCoarsestLoop && steps_of(kernels, grain) > budget / 2; loop /= 2)
    grain = asked_grain(schedule, machine, options, loop);
  return grain;
}

/// No kernel whose CTAs are all equally long ends in a few CTAs of one wave more, with few waves before.
bool has_smooth_end(const Schedule& schedule, const Machine& machine) {
  const AttentionProblem& p = schedule.problem();
  const bool is_banded = p.is_sparse() || p.mask().left >= 0 || p.mask().right >= 0;
  for (const KernelLaunch& launch : schedule.kernels()) {
    const std::int64_t sms = static_cast<std::int64_t>(machine.num_sms.value);
    const std::int64_t each = std::max(1, occupancy(launch.resources, machine).ctas_per_sm);
    const std::int64_t left = launch.ctas() % (sms * each);  // in the last wave
    const bool all_sms_alike = left == 0 || left > sms * (each - 1);
    if (!is_banded && !all_sms_alike && launch.ctas() < kManyWaves * sms * each) return false;
  }
  return true;
}

/// Half the size of a step hardly changes anything: a tenth of what larger steps may change.
bool are_settled(const Prediction& coarse, const Prediction& finer) {
  const auto within = [](std::int64_t one, std::int64_t other, std::int64_t whole, std::int64_t parts) {
    return std::abs(one - other) <= whole / parts;
  };
  const std::int64_t written = finer.hbm.write + finer.hbm_dirty_bytes;
  return within(coarse.hbm.read, finer.hbm.read, finer.hbm.read, 2000) &&
         within(coarse.hbm.write, finer.hbm.write, written, 2000) &&
         within(coarse.hbm_dirty_bytes, finer.hbm_dirty_bytes, written, 2000) &&
         within(coarse.time, finer.time, finer.time, 1000);
}

/// In larger steps: the first grain that says the same as the one before it; else the last, which needs no witness.
Prediction simulate_settled(const Schedule& schedule, const Machine& machine, const RunOptions& options,
                            const std::vector<Grain>& grains) {
  Prediction last;
  for (std::size_t n = 0; n < grains.size(); ++n) {
    Prediction finer = simulate_all(schedule, machine, options, grains[n]);
    if (n > 0 && are_settled(last, finer)) return finer;
    last = std::move(finer);
  }
  return last;
}

/// From large steps to single tiles.
std::vector<Grain> ever_smaller(const Schedule& schedule, const Machine& machine, const RunOptions& options,
                                const std::vector<KernelCount>& kernels) {
  const ScoreBlocks safe = score_blocks(schedule, machine);
  std::vector<Grain> grains;
  if (has_smooth_end(schedule, machine))
    for (std::int64_t loop = kCoarsestCompared; loop <= kFinestCompared; loop *= 2) {
      Grain grain = asked_grain(schedule, machine, options, loop);
      grain.scores = safe;
      const std::int64_t steps = steps_of(kernels, grain);
      if (steps <= steps_of(kernels, {}) / 2 && (grains.empty() || steps > steps_of(kernels, grains.back())))
        grains.push_back(std::move(grain));
    }
  if (grains.size() == 1) grains.clear();  // nothing to compare it with
  grains.push_back({{}, safe, false});
  return grains;
}

/// No mask makes one CTA's work differ from another's.
bool are_ctas_alike(const Schedule& schedule) {
  const AttentionProblem& p = schedule.problem();
  const bool is_masked = p.is_sparse() || p.dense_mask || p.mask().left >= 0 || p.mask().right >= 0;
  return !is_masked && p.pass == Pass::forward && schedule.tile().splits <= 1 && schedule.sector_aligned();
}

}  // namespace

Count counted_for(const Schedule& schedule, const RunOptions& options) {
  if (!options.progress) return count(schedule);
  return count(schedule, [&](double) { return options.progress(0); });  // the run has not begun
}

Prediction simulate(const Schedule& schedule, const Machine& machine, const RunOptions& options) {
  if (options.trace) return simulate_all(schedule, machine, options);
  const std::vector<KernelCount> kernels = counted_for(schedule, options).kernels;
  const std::int64_t ops = steps_of(kernels, {});
  if (ops <= options.op_budget)
    return simulate_all(schedule, machine, options,
                        {{}, score_blocks(schedule, machine), ops > options.whole_op_budget});
  const bool is_affordable = ops <= options.settled_op_budget;
  // Loops are most of it: in larger steps it is within the budget.
  const bool is_long_loops = steps_of(kernels, asked_grain(schedule, machine, options, kCoarsestCompared)) <= ops / 2;
  if (is_long_loops && is_affordable)
    return simulate_settled(schedule, machine, options, ever_smaller(schedule, machine, options, kernels));
  Grain grain = is_affordable ? Grain{} : grain_for(schedule, machine, options, kernels);
  grain.scores = score_blocks(schedule, machine);
  const std::int64_t steps = steps_of(kernels, grain);
  if (steps <= options.op_budget) {
    grain.passes_over_heads = true;
    return simulate_all(schedule, machine, options, grain);
  }
  const std::int64_t steps_per_head = steps / std::max(1, schedule.problem().num_heads());
  if (steps_per_head * kFewestHeads <= options.op_budget || !are_ctas_alike(schedule))
    return simulate_some_heads(schedule, machine, options, steps_per_head, grain);
  const ScoreBlocks widest = widest_score_blocks(schedule, machine);
  if (!grain.scores.has_all_rows) grain.scores.tiles = std::min(kWiderScores * grain.scores.tiles, widest.tiles);
  return simulate_some_ctas(schedule, machine, options, grain);
}

}  // namespace flashscope
