#include "sim/schedule/key_outer.h"

#include <algorithm>

namespace flashscope {

KeyOuterWalk key_outer_walk(const AttentionProblem& p, TileShape tile) {
  KeyOuterWalk walk;
  for (int j = 0; j < num_tiles(p.seqlen_k, tile.bc); ++j) {
    const Range visited = visited_tiles(transposed(p.mask()), tile.bc, tile.br, j);
    if (visited.end == visited.begin) continue;
    walk.keys += tile_rows(p.seqlen_k, tile.bc, j);
    walk.visits += std::min<std::int64_t>(p.seqlen_q, std::int64_t{visited.end} * tile.br) -
                   std::int64_t{visited.begin} * tile.br;
  }
  return walk;
}

std::int64_t algorithm_4_bytes(const AttentionProblem& p, TileShape tile) {
  const std::int64_t row_bytes = std::int64_t{p.head_dim} * element_bytes(p.dtype);
  const KeyOuterWalk walk = key_outer_walk(p, tile);
  const std::int64_t of_keys = 2 * (walk.keys + p.seqlen_k) * row_bytes;  // K, V; dK, dV
  const std::int64_t of_queries = walk.visits * (5 * row_bytes + 8);
  return of_keys * p.num_kv_heads() + of_queries * p.num_heads();
}

}  // namespace flashscope
