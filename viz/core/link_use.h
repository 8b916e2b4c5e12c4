// How much of the links' bandwidth a run uses over time, and what the CTAs of an SM spend their time on: what the timeline
// draws above the slots.
#pragma once
#include <array>
#include <vector>

#include "viz/core/stage_trace.h"

namespace flashscope::viz {

/// Share of what the machine offers, 0 … 1, for `columns` equal pieces of [begin, end). Bytes of a span are spread
/// evenly over it.
struct LinkUse {
  std::vector<float> hbm, l2;
};
LinkUse link_use(const StageTrace& trace, double begin, double end, int columns);

/// By reason: the share of the SM's CTA slots that spend their time on it. The shares of a column add up to at most 1.
using UnitUse = std::array<std::vector<float>, kNumReasons>;
UnitUse unit_use(const StageTrace& trace, int sm, double begin, double end, int columns);

}  // namespace flashscope::viz
