// A CTA's operations as the engine runs them: runs of like tiles stay folded, so that a CTA that streams a thousand key
// tiles costs a handful of operations to hold.
#pragma once
#include <vector>

#include "sim/schedule/schedule.h"

namespace flashscope {

/// `ops` performed `repeat.times` times, each time repeat.step tiles further along repeat.axis.
struct Segment {
  std::vector<TileOp> ops;
  Repeat repeat;
  /// Of a turn (Turns) by rows: the same operations with its rows, for the time they take. What they move is `ops`: that share
  /// of the columns of all rows, because rows of one turn and of the next lie in the same blocks.
  std::vector<TileOp> rows_of_turn;
};
using Program = std::vector<Segment>;

/// Turns have whole blocks of `score_tiles` key tiles.
Program program_of(const Schedule& schedule, int kernel, std::int64_t cta, int score_tiles = 1);

/// `op` as it is in repetition `n` of its segment.
TileOp advanced(TileOp op, const Repeat& repeat, std::int64_t n, const TileShape& tile);

}  // namespace flashscope
