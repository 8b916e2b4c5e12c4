// Which tiles an algorithm visits, in which order, and which bytes of a tile one warp request takes.
//
// This header is compiled twice: by the host for the schedules and by nvcc for the kernels. A loop bound, a skip rule
// or a copy width exists here and nowhere else, so that the count and the kernel cannot disagree.
//
// Letters are the FlashAttention paper's (arXiv 2205.14135): query tiles of Br rows are numbered i = 0 … Tr-1, key
// tiles of Bc rows j = 0 … Tc-1. Sequence positions are int (at most kMaxSeqlen); bytes are 64-bit.
#pragma once
#include <cstdint>

#if defined(__CUDACC__)
#define FLASHSCOPE_HD __host__ __device__ __forceinline__
#else
#define FLASHSCOPE_HD inline
#endif

namespace flashscope {

inline constexpr int kMaxSeqlen = 1 << 24;
inline constexpr int kSectorBytes = 32;  // granule of a global memory request (CUDA programming guide)
inline constexpr int kWarpSize = 32;
inline constexpr int kVectorBytes = 16;  // widest load of one thread

/// Which keys a query may see: causal and sliding window, aligned to the bottom right. Query `row` sees key `key` when
///   row + offset - left <= key <= row + offset + right,   offset = seqlen_k - seqlen_q.
/// A negative bound is no bound; causal is right = 0.
struct MaskShape {
  int seqlen_q = 0;
  int seqlen_k = 0;
  int left = -1;
  int right = -1;
};

/// Half-open range of tiles or keys: begin <= t < end. Empty when begin == end.
struct Range {
  int begin = 0;
  int end = 0;
};

FLASHSCOPE_HD int min_int(int a, int b) { return a < b ? a : b; }
FLASHSCOPE_HD int max_int(int a, int b) { return a > b ? a : b; }
FLASHSCOPE_HD int clamp_int(std::int64_t x, int lo, int hi) { return x < lo ? lo : x > hi ? hi : static_cast<int>(x); }

FLASHSCOPE_HD int num_tiles(int length, int tile) { return (length + tile - 1) / tile; }
/// Rows of tile t: `tile`, or fewer in the last one.
FLASHSCOPE_HD int tile_rows(int length, int tile, int t) { return min_int(tile, length - t * tile); }

/// Keys that query `row` sees.
FLASHSCOPE_HD Range kept_keys(const MaskShape& mask, int row) {
  const std::int64_t diagonal = static_cast<std::int64_t>(row) + mask.seqlen_k - mask.seqlen_q;
  const int begin = mask.left < 0 ? 0 : clamp_int(diagonal - mask.left, 0, mask.seqlen_k);
  const int end = mask.right < 0 ? mask.seqlen_k : clamp_int(diagonal + mask.right + 1, 0, mask.seqlen_k);
  return {begin, max_int(begin, end)};
}

FLASHSCOPE_HD bool is_kept(const MaskShape& mask, int row, int key) {
  const Range keys = kept_keys(mask, row);
  return keys.begin <= key && key < keys.end;
}

/// The same mask with queries and keys exchanged: key tile j as the owner, query tiles as what it visits.
FLASHSCOPE_HD MaskShape transposed(const MaskShape& mask) {
  return {mask.seqlen_k, mask.seqlen_q, mask.right, mask.left};
}

/// Key tiles that query tile i visits: those in which at least one pair is kept. Both bounds grow with the row, so the
/// first row gives the first key and the last row gives the last. (Of a SparseMask: the tiles between the two; any_kept
/// says which of them are visited.)
template <class Mask>
FLASHSCOPE_HD Range visited_tiles(const Mask& mask, int br, int bc, int i) {
  const int first_row = i * br;
  const int last_row = first_row + tile_rows(mask.seqlen_q, br, i) - 1;
  const int first_key = kept_keys(mask, first_row).begin;
  const int end_key = kept_keys(mask, last_row).end;
  const int begin = first_key / bc;
  return {begin, max_int(begin, num_tiles(end_key, bc))};
}

/// The part of visited_tiles in which every tile is whole (Bc keys) and every pair kept: no masking inside. May be
/// empty. (Of a SparseMask: blocks left aside.)
template <class Mask>
FLASHSCOPE_HD Range whole_tiles(const Mask& mask, int br, int bc, int i) {
  const Range visited = visited_tiles(mask, br, bc, i);
  const int first_row = i * br;
  const int last_row = first_row + tile_rows(mask.seqlen_q, br, i) - 1;
  const int begin = clamp_int(num_tiles(kept_keys(mask, last_row).begin, bc), visited.begin, visited.end);
  const int end = clamp_int(kept_keys(mask, first_row).end / bc, begin, visited.end);
  return {begin, end};
}

/// Part `split` of `splits` of a range of tiles: contiguous, in order, equally long but for one tile. May be empty.
FLASHSCOPE_HD Range split_of(Range all, int split, int splits) {
  const std::int64_t tiles = all.end - all.begin;
  return {all.begin + static_cast<int>(tiles * split / splits),
          all.begin + static_cast<int>(tiles * (split + 1) / splits)};
}

/// Bytes one thread copies at once from or to a tile of a row-major matrix: 16, or one element where rows are not
/// 16-byte aligned. All arguments in bytes; `first_byte` is the offset of the tile's first element in its tensor.
FLASHSCOPE_HD int copy_width(std::int64_t first_byte, std::int64_t pitch, std::int64_t row_bytes, int element) {
  return (first_byte | pitch | row_bytes) % kVectorBytes == 0 ? kVectorBytes : element;
}

/// Elements from one row of S or P to the next. Each row starts on a sector of its own: a warp's request then takes no
/// sector twice, no store shares one with the row before, and rows of any length can be copied by vectors.
FLASHSCOPE_HD int score_pitch(int seqlen_k, int element) {
  const int per_sector = kSectorBytes / element;
  return num_tiles(seqlen_k, per_sector) * per_sector;
}

/// True when every pair of rows × keys is kept: no masking there.
FLASHSCOPE_HD bool all_kept(const MaskShape& mask, Range rows, Range keys) {
  return kept_keys(mask, rows.end - 1).begin <= keys.begin && kept_keys(mask, rows.begin).end >= keys.end;
}

/// The three-pass softmax holds a row in registers between reading and writing it, kSoftmaxVectors vectors a lane: by
/// one warp while it can, else by two, four or all eight of its CTA. A longer row (0) is read from global memory twice,
/// once for its maximum and sum, once for the probabilities.
inline constexpr int kSoftmaxThreads = 256;
inline constexpr int kSoftmaxVectors = 8;
FLASHSCOPE_HD int softmax_warps(int seqlen_k, int element) {
  const std::int64_t row_bytes = std::int64_t{score_pitch(seqlen_k, element)} * element;
  for (int warps = 1; warps <= kSoftmaxThreads / kWarpSize; warps *= 2)
    if (row_bytes <= std::int64_t{warps} * kWarpSize * kSoftmaxVectors * kVectorBytes) return warps;
  return 0;
}
/// Rows of one of its CTAs: it reads them (twice, if they do not fit), then writes them.
inline constexpr int kSoftmaxRows = 16;
inline constexpr int kSoftmaxSmemBytes = 4 * (3 * kSoftmaxRows + 2 * kSoftmaxThreads / kWarpSize);

/// The three-pass backward softmax keeps a row of P and one of dP in SMEM as float32 while they fit the 48 KiB that every
/// CTA may have; longer ones are read twice, once for their dot product and once for dS.
FLASHSCOPE_HD bool d_softmax_rows_fit(int seqlen_k) { return 8 * std::int64_t{seqlen_k} + 1024 <= 48 * 1024; }
FLASHSCOPE_HD int d_softmax_row_bytes(int seqlen_k) {
  return 8 * (d_softmax_rows_fit(seqlen_k) ? seqlen_k : 0) + 1024;
}

/// K and V in pages of 2^shift keys.
struct Paging {
  int shift = 0;
  FLASHSCOPE_HD int page_of(int key) const { return key >> shift; }
  /// Of keys of which there is one at least.
  FLASHSCOPE_HD Range pages_of(Range keys) const { return {page_of(keys.begin), page_of(keys.end - 1) + 1}; }
  /// In which row of all pages, in their order in memory, a key lies. A page has the keys of one KV head after the other.
  /// `place`: of the page, as the block table tells it; `kv_head`: of the batch entry.
  FLASHSCOPE_HD std::int64_t row_of(int place, int kv_head, int kv_heads, int key) const {
    return ((static_cast<std::int64_t>(place) * kv_heads + kv_head) << shift) + (key & ((1 << shift) - 1));
  }
};
/// `page_size`: a power of two.
FLASHSCOPE_HD Paging paging_of(int page_size) {
  Paging paging;
  while (1 << paging.shift < page_size) ++paging.shift;
  return paging;
}

/// Query head h reads KV head h / (heads / kv_heads): grouped heads are neighbours.
FLASHSCOPE_HD int kv_head_of(int head, int heads, int kv_heads) { return head / (heads / kv_heads); }

}  // namespace flashscope
