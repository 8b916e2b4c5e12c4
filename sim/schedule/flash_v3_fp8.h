// flash_v3_fp8's choices for a problem, as in flash_v3.h.
#pragma once
#include "sim/schedule/fp8_rung.h"
#include "sim/schedule/schedule.h"

namespace flashscope {

/// The tile that the kernel is built with and takes for this problem.
TileShape flash_v3_fp8_tile(const AttentionProblem& problem);

/// Heads whose query tiles are taken together (query_tile_taken).
int flash_v3_fp8_heads_at_once(const AttentionProblem& problem);

}  // namespace flashscope
