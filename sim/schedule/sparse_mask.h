// Masks that are more than a band: packed sequences and block sparsity, for host and device. The functions of walk.h take
// these masks too.
#pragma once
#include "sim/schedule/walk.h"

namespace flashscope {

/// Sequences packed one after the other along the rows of Q, K and V: sequence s has queries [q[s], q[s + 1]) and keys
/// [k[s], k[s + 1]), and sees no other's keys. Either may be empty. count = 0: one sequence.
struct PackedSequences {
  const int* q = nullptr;
  const int* k = nullptr;
  int count = 0;
};

/// One bit for each block of block_q × block_k pairs, set where the block is kept: bit (column % 32) of word
/// row · words_a_row + column / 32. words = null: every block is kept. The same for all heads.
struct BlockBits {
  const std::uint32_t* words = nullptr;
  int words_a_row = 0;
  int block_q = 1, block_k = 1;
  FLASHSCOPE_HD bool kept(int row, int column) const {
    return !words || (words[static_cast<std::int64_t>(row) * words_a_row + column / 32] >> (column % 32) & 1u) != 0;
  }
};

/// A band (causal, window), in each packed sequence of its own, and of that the blocks that are kept.
struct SparseMask : MaskShape {
  PackedSequences sequences;
  BlockBits blocks;
  bool by_key = false;  // transposed: rows are keys

  FLASHSCOPE_HD bool is_band() const { return sequences.count == 0 && !blocks.words; }
  FLASHSCOPE_HD const int* row_offsets() const { return by_key ? sequences.k : sequences.q; }
  FLASHSCOPE_HD const int* column_offsets() const { return by_key ? sequences.q : sequences.k; }
  FLASHSCOPE_HD int block_rows() const { return by_key ? blocks.block_k : blocks.block_q; }
  FLASHSCOPE_HD int block_columns() const { return by_key ? blocks.block_q : blocks.block_k; }
  FLASHSCOPE_HD bool block_kept(int row, int column) const {
    return by_key ? blocks.kept(column, row) : blocks.kept(row, column);
  }
};

FLASHSCOPE_HD SparseMask transposed(const SparseMask& mask) {
  SparseMask result = mask;
  static_cast<MaskShape&>(result) = transposed(static_cast<const MaskShape&>(mask));
  result.by_key = !mask.by_key;
  return result;
}

/// Tiles that a CTA looks up at once, and the shared memory for what it finds (kernels/common/tile_walk.cuh).
inline constexpr int kTilesAhead = 512;
FLASHSCOPE_HD constexpr int tile_walk_bytes(bool is_sparse) {
  return is_sparse ? 4 * kTilesAhead + kTilesAhead / 4 + kVectorBytes : 0;  // a list, two bits a tile, two numbers
}

/// The packed sequence that a row belongs to: the last that begins at or before it (empty ones begin there too, before).
FLASHSCOPE_HD int sequence_of(const SparseMask& mask, int row) {
  int lo = 0, hi = mask.sequences.count;  // begins at or before; does not
  while (hi - lo > 1) {
    const int middle = lo + (hi - lo) / 2;
    (mask.row_offsets()[middle] <= row ? lo : hi) = middle;
  }
  return lo;
}

/// Keys that query `row`, of sequence s, sees, blocks left aside.
FLASHSCOPE_HD Range kept_keys_in(const SparseMask& mask, int s, int row) {
  if (mask.sequences.count == 0) return kept_keys(static_cast<const MaskShape&>(mask), row);
  const int* const rows = mask.row_offsets() + s;
  const int* const columns = mask.column_offsets() + s;
  const MaskShape one = {rows[1] - rows[0], columns[1] - columns[0], mask.left, mask.right};
  const Range keys = kept_keys(one, row - rows[0]);
  return {keys.begin + columns[0], keys.end + columns[0]};
}

/// The same of any row, in its own sequence. Grows with the row, as in a band.
FLASHSCOPE_HD Range kept_keys(const SparseMask& mask, int row) {
  return kept_keys_in(mask, sequence_of(mask, row), row);
}

FLASHSCOPE_HD bool is_kept(const SparseMask& mask, int row, int key) {
  const Range keys = kept_keys(mask, row);
  return keys.begin <= key && key < keys.end && mask.block_kept(row / mask.block_rows(), key / mask.block_columns());
}

/// What query `row` sees of up to 64 keys, as bits: bit n for key keys.begin + n. Keys past the end are not seen; a row
/// past the end, as tiles have them, counts as the last.
FLASHSCOPE_HD std::uint64_t kept_bits(const SparseMask& mask, int row, Range keys) {
  const auto bits_from = [&](int begin, int end) {  // of keys [begin, end), at most 64
    const std::uint64_t ones = ~std::uint64_t{0} >> (64 - (end - begin));
    return ones << (begin - keys.begin);
  };
  row = min_int(row, mask.seqlen_q - 1);
  const Range kept = kept_keys(mask, row), seen = {max_int(kept.begin, keys.begin), min_int(kept.end, keys.end)};
  if (seen.begin >= seen.end) return 0;
  if (!mask.blocks.words) return bits_from(seen.begin, seen.end);
  std::uint64_t bits = 0;
  const int width = mask.block_columns(), block_row = row / mask.block_rows();
  for (int key = seen.begin; key < seen.end;) {  // block by block
    const int column = key / width, end = min_int(seen.end, (column + 1) * width);
    if (mask.block_kept(block_row, column)) bits |= bits_from(key, end);
    key = end;
  }
  return bits;
}

/// What rows of sequence s see of `keys`, blocks left aside: their ranges overlap into one. begin >= end: nothing.
FLASHSCOPE_HD Range seen_in(const SparseMask& mask, int s, Range rows, Range keys) {
  const Range first = kept_keys_in(mask, s, rows.begin), last = kept_keys_in(mask, s, rows.end - 1);
  return {max_int(first.begin, keys.begin), min_int(last.end, keys.end)};
}

/// True when some pair of rows × keys is kept, for rows of sequence s.
FLASHSCOPE_HD bool any_kept_in(const SparseMask& mask, int s, Range rows, Range keys) {
  const Range seen = seen_in(mask, s, rows, keys);
  if (seen.begin >= seen.end) return false;
  if (!mask.blocks.words) return true;
  for (int row = rows.begin / mask.block_rows(); row <= (rows.end - 1) / mask.block_rows(); ++row)
    for (int column = seen.begin / mask.block_columns(); column <= (seen.end - 1) / mask.block_columns(); ++column) {
      if (!mask.block_kept(row, column)) continue;
      // The part of the block that lies in the tile, and what the band leaves of it.
      const Range r = {max_int(rows.begin, row * mask.block_rows()),
                       min_int(rows.end, (row + 1) * mask.block_rows())};
      const Range k = {max_int(keys.begin, column * mask.block_columns()),
                       min_int(keys.end, (column + 1) * mask.block_columns())};
      const Range in_block = seen_in(mask, s, r, k);
      if (in_block.begin < in_block.end) return true;
    }
  return false;
}

/// True when some pair of rows × keys is kept: a tile of them is loaded, any other is skipped.
FLASHSCOPE_HD bool any_kept(const SparseMask& mask, Range rows, Range keys) {
  for (int row = rows.begin; row < rows.end;) {  // sequence by sequence
    const int s = sequence_of(mask, row);
    const int end = mask.sequences.count == 0 ? rows.end : min_int(rows.end, mask.row_offsets()[s + 1]);
    if (any_kept_in(mask, s, {row, end}, keys)) return true;
    row = end;
  }
  return false;
}

/// True when every pair of rows × keys is kept: no masking there.
FLASHSCOPE_HD bool all_kept(const SparseMask& mask, Range rows, Range keys) {
  if (kept_keys(mask, rows.end - 1).begin > keys.begin || kept_keys(mask, rows.begin).end < keys.end) return false;
  if (!mask.blocks.words) return true;
  for (int row = rows.begin / mask.block_rows(); row <= (rows.end - 1) / mask.block_rows(); ++row)
    for (int column = keys.begin / mask.block_columns(); column <= (keys.end - 1) / mask.block_columns(); ++column)
      if (!mask.block_kept(row, column)) return false;
  return true;
}

}  // namespace flashscope
