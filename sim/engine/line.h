// Two runs of a part, a smaller and a larger, continued in a straight line to the whole.
#pragma once
#include <cstdint>
#include <vector>

#include "sim/engine/run.h"

namespace flashscope {

/// How much of a kernel the two runs did, and how much there is: heads or CTAs. All three may be equal.
struct Line {
  std::int64_t small, large, all;
  /// The value at `all` of what was `at_small` and `at_large`; never below what the larger run saw.
  std::int64_t operator()(std::int64_t at_small, std::int64_t at_large) const {
    if (large == small) return at_large;
    return at_large + std::max<std::int64_t>(0, at_large - at_small) / (large - small) * (all - large);
  }
};

/// `lines` by kernel; counts are those of the whole.
Prediction continued(const std::vector<Line>& lines, const Prediction& small, const Prediction& large,
                     const Count& counted);

}  // namespace flashscope
