// What flash_v2's loops move, for the rungs that run them on different units (flash_v2.cpp, flash_v2_tensor.cpp; their
// backward passes flash_v2_backward.cpp, flash_v2_tensor_backward.cpp).
#pragma once
#include "sim/schedule/schedule.h"

namespace flashscope {

/// What any of them moves: Q and O once, K and V once for each query tile that sees them.
ClosedForm flash_v2_closed_form(const AttentionProblem& problem, const TileShape& tile);

/// And their backward passes, of three kernels: O and dO once for D; K and V once with Q, dO, LSE and D of each query
/// tile that sees them; Q, dO, LSE and D once with each K and V that they see.
ClosedForm flash_v2_backward_closed_form(const AttentionProblem& problem, const TileShape& tile);

}  // namespace flashscope
