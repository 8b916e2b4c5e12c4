// CTAs repeat each other within a head, too: two runs with the first CTAs of each kernel, and a straight line through both.
#include <algorithm>
#include <numeric>

#include "sim/engine/line.h"
#include "sim/engine/run.h"

namespace flashscope {
namespace {

/// L2 has been turned over this often before what one more CTA adds is looked at.
constexpr std::int64_t kTurnovers = 3;
/// And it is looked at over so many waves: slots that start together drift apart by jumps, each worth a fraction of a
/// wave, and a line through two points draws a jump between them out to the end.
constexpr std::int64_t kSeenWaves = 8;
/// Waves that the larger run may have more than the smaller, to end at a whole row of tiles and a whole wave.
constexpr std::int64_t kMostWaves = 64;

std::int64_t rounded_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

Line line_of(const Schedule& schedule, int k, const KernelCount& counted, const Machine& machine) {
  const KernelLaunch& launch = schedule.kernels()[static_cast<std::size_t>(k)];
  const std::int64_t all = launch.ctas();
  const std::int64_t slots =
      static_cast<std::int64_t>(machine.num_sms.value) * std::max(1, occupancy(launch.resources, machine).ctas_per_sm);
  // CTAs that own a tile of scores each share their query tile along a row of them.
  const std::int64_t query_tiles = std::max(1, num_tiles(schedule.problem().seqlen_q, schedule.tile().br));
  const std::int64_t row = std::max<std::int64_t>(1, launch.ctas_per_head / query_tiles);
  const std::int64_t bytes_each =
      std::max<std::int64_t>(1, (counted.sm.read + counted.sm.write) / std::max<std::int64_t>(1, all));
  const std::int64_t turnover = kTurnovers * static_cast<std::int64_t>(machine.l2_bytes.value) / bytes_each;
  // Both runs end at the same place in a wave as the whole does, and in a row as each other.
  const std::int64_t small = all % slots + rounded_up(std::max(slots, turnover), slots);
  const std::int64_t both = std::lcm(row, slots);
  const std::int64_t unit = both <= kMostWaves * slots ? both : rounded_up(row, slots);
  const std::int64_t large = small + rounded_up(kSeenWaves * slots, unit);
  if (large >= all) return {all, all, all};
  return {small, large, all};
}

}  // namespace

Prediction simulate_some_ctas(const Schedule& schedule, const Machine& machine, const RunOptions& options,
                              const Grain& grain) {
  const Count counted = counted_for(schedule, options);
  std::vector<Line> lines;
  std::vector<std::int64_t> small, large;
  for (int k = 0; k < static_cast<int>(schedule.kernels().size()); ++k) {
    lines.push_back(line_of(schedule, k, counted.kernels[static_cast<std::size_t>(k)], machine));
    small.push_back(lines.back().small);
    large.push_back(lines.back().large);
  }
  Prediction all = continued(lines, simulate_all(schedule, machine, options, grain, small),
                             simulate_all(schedule, machine, options, grain, large), counted);
  all.simulated_heads = 0;  // none as a whole
  return all;
}

}  // namespace flashscope
