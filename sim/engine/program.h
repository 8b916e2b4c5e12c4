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
};
using Program = std::vector<Segment>;

Program program_of(const Schedule& schedule, int kernel, std::int64_t cta);

/// `op` as it is in repetition `n` of its segment.
TileOp advanced(TileOp op, const Repeat& repeat, std::int64_t n, const TileShape& tile);

}  // namespace flashscope
