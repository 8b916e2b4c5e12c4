// flash_v3's choices for a problem: the tile, and how many heads are under way at once. Read by its schedule and by what
// launches its kernel.
#pragma once
#include "sim/schedule/hopper_rungs.h"
#include "sim/schedule/schedule.h"

namespace flashscope {

/// The tile that the kernel is built with and takes for this problem.
TileShape flash_v3_tile(const AttentionProblem& problem);

/// Heads whose query tiles are taken together (query_tile_taken).
int flash_v3_heads_at_once(const AttentionProblem& problem);

}  // namespace flashscope
