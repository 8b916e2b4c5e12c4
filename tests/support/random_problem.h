// Small problems that sit on, and just off, every multiple; from a seeded generator.
#pragma once
#include <initializer_list>
#include <random>

#include "sim/schedule/schedule.h"

namespace flashscope {

inline int pick(std::mt19937& random, std::initializer_list<int> values) {
  return *(values.begin() + static_cast<std::ptrdiff_t>(random() % values.size()));
}

inline AttentionProblem random_problem(std::mt19937& random) {
  AttentionProblem p;
  p.batch = pick(random, {0, 1, 2, 3});
  p.kv_heads = pick(random, {1, 2, 3});
  p.heads = p.kv_heads * pick(random, {1, 2, 4});
  p.seqlen_q = pick(random, {0, 1, 7, 31, 32, 33, 63, 64, 65, 100, 257});
  p.seqlen_k = pick(random, {0, 1, 7, 31, 32, 33, 63, 64, 65, 100, 257});
  p.head_dim = pick(random, {1, 2, 7, 8, 24, 40, 64, 80, 128, 200});
  p.dtype = static_cast<DType>(pick(random, {0, 1, 2, 3, 4}));
  switch (pick(random, {0, 1, 2})) {
    case 1: p.causal = true; break;
    case 2:
      p.window_left = pick(random, {-1, 0, 3, 40});
      p.window_right = pick(random, {-1, 0, 5, 64, INT32_MAX});
      break;
  }
  p.dense_mask = pick(random, {0, 0, 0, 1}) == 1;
  return p;
}

/// Any tile, as long as walking the operations one by one takes no seconds: long heads in tiles of one element do.
inline TileShape random_tile(const AttentionProblem& p, std::mt19937& random) {
  for (;;) {
    const TileShape tile{pick(random, {1, 5, 16, 32}), pick(random, {1, 5, 16, 32, 64}), 1, pick(random, {0, 1}) == 1};
    const std::int64_t patches = std::int64_t{p.num_heads()} * num_tiles(p.seqlen_q, tile.br) *
                                 num_tiles(p.seqlen_k, tile.bc) * num_tiles(p.head_dim, tile.bc);
    if (patches <= 30'000) return tile;
  }
}

}  // namespace flashscope
