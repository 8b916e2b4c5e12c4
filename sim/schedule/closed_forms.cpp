#include "sim/schedule/closed_forms.h"

#include <algorithm>

namespace flashscope {

namespace {

/// Rows in the tiles [visited.begin, visited.end), without the gaps that a sparse mask leaves.
template <class IsVisited>
std::int64_t rows_of(const AttentionProblem& p, Range visited, int length, int side, IsVisited is_visited_tile) {
  if (visited.begin == visited.end) return 0;
  if (!p.is_sparse())
    return std::min<std::int64_t>(length, std::int64_t{visited.end} * side) - std::int64_t{visited.begin} * side;
  std::int64_t rows = 0;
  for (int t = visited.begin; t < visited.end; ++t)
    if (is_visited_tile(t)) rows += tile_rows(length, side, t);
  return rows;
}

}  // namespace

std::int64_t visited_keys(const AttentionProblem& p, const TileShape& tile, int i) {
  return rows_of(p, visited_tiles(p.mask(), tile.br, tile.bc, i), p.seqlen_k, tile.bc,
                 [&](int j) { return is_visited(p, tile, i, j); });
}

KeyOuterWalk key_outer_walk(const AttentionProblem& p, TileShape tile) {
  KeyOuterWalk walk;
  for (int j = 0; j < num_tiles(p.seqlen_k, tile.bc); ++j) {
    const std::int64_t rows = rows_of(p, visited_tiles(transposed(p.mask()), tile.bc, tile.br, j), p.seqlen_q, tile.br,
                                      [&](int i) { return is_visited(p, tile, i, j); });
    if (rows > 0) walk.keys += tile_rows(p.seqlen_k, tile.bc, j);
    walk.visits += rows;
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
