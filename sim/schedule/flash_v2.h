// What flash_v2's loops move, for the rungs that run them on different units (flash_v2.cpp, flash_v2_tensor.cpp).
#pragma once
#include "sim/schedule/schedule.h"

namespace flashscope {

/// What any of them moves: Q and O once, K and V once for each query tile that sees them.
ClosedForm flash_v2_closed_form(const AttentionProblem& problem, const TileShape& tile);

}  // namespace flashscope
