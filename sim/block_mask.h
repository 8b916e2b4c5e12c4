// A block-sparse mask: which blocks of query × key pairs are kept. A file (docs/file-formats.md) or a preset.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/schedule/sparse_mask.h"

namespace flashscope {

struct BlockMask {
  std::string name;              // as given: "random:0.25:7", or the file
  int block_q = 64, block_k = 64;  // rows and keys of a block; the last of each may be shorter
  int rows = 0, cols = 0;        // blocks: ⌈seqlen_q / block_q⌉ × ⌈seqlen_k / block_k⌉
  std::vector<std::uint32_t> words;  // as BlockBits reads them

  BlockMask() = default;
  BlockMask(int block_q_, int block_k_, int rows_, int cols_);
  bool kept(int row, int col) const { return bits().kept(row, col); }
  void keep(int row, int col);
  std::int64_t kept_blocks() const;
  BlockBits bits() const { return {words.data(), words_a_row(), block_q, block_k}; }
  bool operator==(const BlockMask&) const = default;

 private:
  int words_a_row() const { return (cols + 31) / 32; }
};

/// A mask held by many problems; equal when the contents are.
struct SharedBlockMask {
  std::shared_ptr<const BlockMask> mask;
  explicit operator bool() const { return mask != nullptr; }
  bool operator==(const SharedBlockMask& other) const {
    return mask == other.mask || (mask && other.mask && *mask == *other.mask);
  }
};

enum class BlockPattern {
  local,      // the blocks nearest the diagonal
  strided,    // the diagonal, and columns at equal distances, the same in every row
  butterfly,  // column = row with few bits flipped, low bits first (Monarch and butterfly matrices; FlashAttention 3.3)
  random,     // the diagonal, and columns drawn for each row
};

/// Every row keeps ⌈density · columns⌉ blocks, the one on the diagonal among them (the diagonal runs from the first block
/// to the last, also where there are not as many rows as columns). `seed` is for random alone; the same seed gives the
/// same mask on every machine. density in (0, 1].
BlockMask make_block_mask(BlockPattern pattern, double density, std::uint64_t seed, int block, int seqlen_q, int seqlen_k);

}  // namespace flashscope
