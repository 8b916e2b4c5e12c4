#include "sim/engine/grain.h"

#include <algorithm>
#include <array>

#include "sim/engine/engine.h"
#include "sim/engine/program.h"

namespace flashscope {
namespace {

/// What a step loads must stay small in L2, or it would drive out what other CTAs are about to read.
constexpr std::int64_t kStepsInL2 = 32;

/// S is this many times L2 before its blocks are widened: which of them L2 still holds then hardly matters.
constexpr std::int64_t kScoresBeyondL2 = 8;
/// Blocks of scores that L2 has room for then: 64 in each slice of a partition.
constexpr std::int64_t kScoreBlocksInL2 = 4096, kFewestScoreBlocks = 512;
/// And of blocks with all rows of a query tile.
constexpr std::int64_t kTallScoreBlocksInL2 = 1024;

/// A CTA that reads a row of scores part by part keeps a whole block of it in use, also what it has read: this share of
/// L2 may be held so by all CTAs together.
constexpr std::int64_t kStreamsInL2 = 2;

struct Loop {
  std::int64_t times = 1, loaded_bytes = 0;  // of one repetition
  bool reads_scores = false;
};

/// A kernel's longest loop. Its first and its last CTA are looked at: of a band one of them sees most tiles.
Loop longest_loop(const Schedule& schedule, int kernel) {
  Loop longest;
  const std::int64_t ctas = schedule.kernels()[static_cast<std::size_t>(kernel)].ctas_per_head;
  for (std::int64_t cta = 0; cta < ctas; cta += std::max<std::int64_t>(1, ctas - 1))
    for (const Segment& segment : program_of(schedule, kernel, cta)) {
      if (segment.repeat.times <= longest.times) continue;
      longest = {segment.repeat.times};
      for (const TileOp& op : segment.ops)
        if (op.op == Op::load) {
          longest.loaded_bytes += op.bytes;
          longest.reads_scores |= layout_of(op.tensor) == Layout::scores && segment.repeat.axis == Axis::j;
        }
    }
  return longest;
}

/// The largest power of two up to `limit`, at least 1.
int power_of_two(std::int64_t limit) {
  int power = 1;
  while (2 * std::int64_t{power} <= limit) power *= 2;
  return power;
}

/// Rows of scores are read and written once by a kernel: of a block that some CTAs have read in part nobody has to know
/// which part that was.
bool moves_scores_once(const Schedule& schedule) {
  for (int k = 0; k < static_cast<int>(schedule.kernels().size()); ++k) {
    if (schedule.kernels()[static_cast<std::size_t>(k)].ctas() == 0) continue;
    std::array<std::int64_t, kNumTensors> loaded = {}, stored = {}, rows = {};
    for (const Segment& segment : program_of(schedule, k, 0))
      for (const TileOp& op : segment.ops) {
        if ((op.op != Op::load && op.op != Op::store) || layout_of(op.tensor) != Layout::scores) continue;
        const std::size_t t = static_cast<std::size_t>(op.tensor);
        (op.op == Op::load ? loaded : stored)[t] += segment.repeat.times * op.rows * op.cols;
        rows[t] =
            std::max<std::int64_t>(rows[t], op.rows * (segment.repeat.axis == Axis::i ? segment.repeat.times : 1));
      }
    for (std::size_t t = 0; t < kNumTensors; ++t)
      if (std::max(loaded[t], stored[t]) > rows[t] * schedule.problem().seqlen_k) return false;
  }
  return true;
}

/// Key tiles of a block of `rows` rows of S or P of which L2 has room for so many; 0 where not even one fits.
std::int64_t tiles_for(const Schedule& schedule, const Machine& machine, int rows, std::int64_t blocks) {
  const std::int64_t block_bytes =
      std::int64_t{rows} * schedule.tile().bc * shape_of(Tensor::S, schedule.problem()).element_bytes;
  return static_cast<std::int64_t>(machine.l2_bytes.value) / std::max<std::int64_t>(1, blocks) / block_bytes;
}

/// S is much more than L2, and in rows that are moved as wholes.
bool has_large_scores(const Schedule& schedule, const Machine& machine) {
  const int rows = schedule.score_block_rows();
  const TensorShape scores = shape_of(Tensor::S, schedule.problem());
  return rows < schedule.tile().br && scores.rows % rows == 0 &&
         scores.bytes() >= kScoresBeyondL2 * static_cast<std::int64_t>(machine.l2_bytes.value);
}

}  // namespace

ScoreBlocks score_blocks(const Schedule& schedule, const Machine& machine) {
  if (!has_large_scores(schedule, machine)) return {};
  const int low = schedule.score_block_rows(), tall = schedule.tile().br;
  std::int64_t streams = 0;  // CTAs that read a row of scores part by part
  for (int k = 0; k < static_cast<int>(schedule.kernels().size()); ++k) {
    const KernelLaunch& launch = schedule.kernels()[static_cast<std::size_t>(k)];
    const std::int64_t ctas = static_cast<std::int64_t>(machine.num_sms.value) * occupancy(launch.resources, machine).ctas_per_sm;
    if (launch.ctas() > 0 && longest_loop(schedule, k).reads_scores)
      streams = std::max(streams, std::min(ctas, launch.ctas()));
  }
  const std::int64_t tall_tiles =
      tiles_for(schedule, machine, tall, std::max(kTallScoreBlocksInL2, kStreamsInL2 * streams));
  if (tall_tiles > 0 && schedule.problem().seqlen_q % tall == 0 && moves_scores_once(schedule))
    return {power_of_two(tall_tiles), true};
  return {
      power_of_two(tiles_for(schedule, machine, low, std::max(kScoreBlocksInL2, kStreamsInL2 * streams * tall / low)))};
}

ScoreBlocks widest_score_blocks(const Schedule& schedule, const Machine& machine) {
  if (!has_large_scores(schedule, machine)) return {};
  return {power_of_two(tiles_for(schedule, machine, schedule.score_block_rows(), kFewestScoreBlocks))};
}

Grain grain_of(const Schedule& schedule, const Machine& machine, std::int64_t steps) {
  const std::int64_t l2_bytes = static_cast<std::int64_t>(machine.l2_bytes.value);
  Grain grain;
  for (int k = 0; k < static_cast<int>(schedule.kernels().size()); ++k) {
    const bool runs = schedule.kernels()[static_cast<std::size_t>(k)].ctas() > 0;
    const Loop loop = runs ? longest_loop(schedule, k) : Loop{};
    grain.repetitions.push_back(power_of_two(
        std::min(loop.times / steps, l2_bytes / kStepsInL2 / std::max<std::int64_t>(1, loop.loaded_bytes))));
  }
  return grain;
}

}  // namespace flashscope
