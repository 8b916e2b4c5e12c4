// Small problems that sit on, and just off, every multiple; from a seeded generator.
#pragma once
#include <algorithm>
#include <initializer_list>
#include <memory>
#include <random>
#include <utility>
#include <vector>

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

/// Offsets of `sequences` packed sequences over `length` rows: any of them may be empty.
inline std::vector<int> random_offsets(int length, int sequences, std::mt19937& random) {
  std::vector<int> offsets = {0, length};
  for (int n = 1; n < sequences; ++n) offsets.push_back(static_cast<int>(random() % static_cast<unsigned>(length + 1)));
  std::sort(offsets.begin(), offsets.end());
  return offsets;
}

/// Packed sequences, a block mask, both or neither, on top of whatever mask the problem has.
inline void add_sparsity(AttentionProblem& p, std::mt19937& random) {
  if (random() % 2 == 0) {
    const int sequences = pick(random, {1, 2, 3, 7});
    p.batch = p.batch > 1 ? 1 : p.batch;
    p.cu_seqlens_q = random_offsets(p.seqlen_q, sequences, random);
    p.cu_seqlens_k = random_offsets(p.seqlen_k, sequences, random);
  }
  if (random() % 2 == 0) {
    const int block = pick(random, {1, 3, 8, 16, 32, 64});
    if (random() % 2 == 0) {
      const BlockPattern pattern = static_cast<BlockPattern>(random() % 4);
      const double density = pick(random, {1, 10, 25, 50, 100}) / 100.0;
      p.block_mask.mask = std::make_shared<const BlockMask>(
          make_block_mask(pattern, density, random() % 100, block, p.seqlen_q, p.seqlen_k));
    } else {  // any blocks at all: empty rows and columns of blocks, sides that differ
      const int other = pick(random, {1, 5, 16, 32});
      BlockMask mask(block, other, num_tiles(p.seqlen_q, block), num_tiles(p.seqlen_k, other));
      for (int row = 0; row < mask.rows; ++row)
        for (int col = 0; col < mask.cols; ++col)
          if (random() % 3 == 0) mask.keep(row, col);
      p.block_mask.mask = std::make_shared<const BlockMask>(std::move(mask));
    }
  }
}

/// Pages or none; 32 rows are whole sectors whatever a row is.
inline int random_page_size(std::mt19937& random) { return pick(random, {0, 32, 64, 128}); }

/// Any tile, as long as walking the operations one by one takes no seconds: long heads in tiles of one element do.
inline TileShape random_tile(const AttentionProblem& p, std::mt19937& random) {
  for (;;) {
    const TileShape tile{pick(random, {1, 5, 16, 32}), pick(random, {1, 5, 16, 32, 64}), pick(random, {1, 1, 2, 3}),
                         pick(random, {0, 1}) == 1,
                         pick(random, {1, 2, 3, 7}), false, random_page_size(random)};
    const std::int64_t patches = std::int64_t{p.num_heads()} * num_tiles(p.seqlen_q, tile.br) *
                                 num_tiles(p.seqlen_k, tile.bc) * num_tiles(p.head_dim, tile.bc);
    if (patches <= 30'000) return tile;
  }
}

}  // namespace flashscope
