// Closed forms that schedules share.
#pragma once
#include "sim/schedule/schedule.h"

namespace flashscope {

/// Keys in the tiles that query tile i visits, of one head.
std::int64_t visited_keys(const AttentionProblem& problem, const TileShape& tile, int i);

/// What a walk over key tiles brings on chip, for one head.
struct KeyOuterWalk {
  std::int64_t keys = 0;    // in key tiles that any query sees
  std::int64_t visits = 0;  // query rows, over all key tiles
};
KeyOuterWalk key_outer_walk(const AttentionProblem& problem, TileShape tile);

/// The paper's count of a tiled backward pass, whatever its loop order: Algorithm 4 with this tile. K and V once per key
/// tile that is seen; for each of its query tiles Q, O, dO and dQ read, dQ written, l and m read (float32); dK and dV
/// written once. The first round's reads of dQ are in, its initialising writes are not. For equal lengths, no mask and
/// kv_heads = heads that is 2Nd + Tc (4Nd + 2N) read and Tc Nd + 2Nd written.
std::int64_t algorithm_4_bytes(const AttentionProblem& problem, TileShape tile);

}  // namespace flashscope
