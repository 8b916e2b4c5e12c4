// How much of the links' bandwidth a run uses over time: what the timeline draws above the slots.
#pragma once
#include <vector>

#include "viz/core/stage_trace.h"

namespace flashscope::viz {

/// Share of what the machine offers, 0 … 1, for `columns` equal pieces of [begin, end). Bytes of a span are spread
/// evenly over it.
struct LinkUse {
  std::vector<float> hbm, l2;
};
LinkUse link_use(const StageTrace& trace, double begin, double end, int columns);

}  // namespace flashscope::viz
