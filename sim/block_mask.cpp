#include "sim/block_mask.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

namespace flashscope {

BlockMask::BlockMask(int block_q_, int block_k_, int rows_, int cols_)
    : block_q(block_q_), block_k(block_k_), rows(rows_), cols(cols_) {
  words.assign(static_cast<std::size_t>(rows) * static_cast<std::size_t>(words_a_row()) + 1, 0);  // never empty
}

void BlockMask::keep(int row, int col) {
  words[static_cast<std::size_t>(row) * static_cast<std::size_t>(words_a_row()) + static_cast<std::size_t>(col / 32)] |=
      1u << (col % 32);
}

std::int64_t BlockMask::kept_blocks() const {
  std::int64_t count = 0;
  for (int row = 0; row < rows; ++row)
    for (int col = 0; col < cols; ++col) count += kept(row, col);
  return count;
}

namespace {

/// Marsaglia's xorshift64: a short generator whose numbers are the same everywhere.
std::uint64_t next_random(std::uint64_t& state) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

int bits_set(unsigned x) {
  int count = 0;
  for (; x != 0; x &= x - 1) ++count;
  return count;
}

/// Columns in the order in which a row keeps them.
std::vector<int> preference(BlockPattern pattern, int row, int diagonal, int cols, int wanted, std::uint64_t& random) {
  std::vector<int> order;
  switch (pattern) {
    case BlockPattern::local:
      order.resize(static_cast<std::size_t>(cols));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](int a, int b) { return std::abs(a - diagonal) < std::abs(b - diagonal); });
      break;
    case BlockPattern::strided:
      order.push_back(diagonal);
      for (int n = 0; n < wanted; ++n) order.push_back(static_cast<int>(std::int64_t{n} * cols / wanted));
      for (int col = 0; col < cols; ++col) order.push_back(col);  // where the diagonal is one of the stripes
      break;
    case BlockPattern::butterfly: {
      unsigned size = 1;
      while (size < static_cast<unsigned>(std::max(row + 1, cols))) size *= 2;
      std::vector<unsigned> flips(size);
      std::iota(flips.begin(), flips.end(), 0u);
      std::stable_sort(flips.begin(), flips.end(), [](unsigned a, unsigned b) { return bits_set(a) < bits_set(b); });
      order.push_back(diagonal);
      for (unsigned flip : flips)
        if (const unsigned col = static_cast<unsigned>(diagonal) ^ flip; col < static_cast<unsigned>(cols))
          order.push_back(static_cast<int>(col));
      break;
    }
    case BlockPattern::random:
      order.resize(static_cast<std::size_t>(cols));
      std::iota(order.begin(), order.end(), 0);
      std::swap(order[0], order[static_cast<std::size_t>(diagonal)]);
      for (int n = 1; n < wanted; ++n)
        std::swap(order[static_cast<std::size_t>(n)],
                  order[static_cast<std::size_t>(n) + next_random(random) % static_cast<std::uint64_t>(cols - n)]);
      break;
  }
  return order;
}

}  // namespace

BlockMask make_block_mask(BlockPattern pattern, double density, std::uint64_t seed, int block, int seqlen_q,
                          int seqlen_k) {
  BlockMask mask(block, block, num_tiles(seqlen_q, block), num_tiles(seqlen_k, block));
  if (mask.rows == 0 || mask.cols == 0) return mask;
  const int wanted = std::clamp(static_cast<int>(std::ceil(density * mask.cols - 1e-9)), 1, mask.cols);
  std::uint64_t random = seed * 0x9E3779B97F4A7C15u + 0x2545F4914F6CDD1Du;  // never 0 for small seeds
  if (random == 0) random = 1;
  for (int row = 0; row < mask.rows; ++row) {
    const int diagonal = static_cast<int>(std::int64_t{row} * mask.cols / mask.rows);
    int kept = 0;
    for (int col : preference(pattern, row, diagonal, mask.cols, wanted, random)) {
      if (kept == wanted) break;
      if (mask.kept(row, col)) continue;
      mask.keep(row, col);
      ++kept;
    }
  }
  return mask;
}

}  // namespace flashscope
