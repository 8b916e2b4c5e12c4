// What a CTA of the decode rung (split_kv) works on and occupies: query rows, key tiles, shared memory, registers.
// Compiled by the host for the schedule and by nvcc for the kernel, like fma_rungs.h.
#pragma once
#include <cstdint>

#include "sim/schedule/fma_rungs.h"

namespace flashscope {

inline constexpr int kDecodeThreads = 128;
inline constexpr int kDecodeWarps = kDecodeThreads / kWarpSize;

/// Rows of a CTA's query tile: as many as one tensor-core product has. The query heads that share a KV head lie one
/// below the other in it, Br rows each, so that their K and V are read once for all of them.
inline constexpr int kDecodeRows = 16;
FLASHSCOPE_HD int decode_heads(int br, int group) { return min_int(group, max_int(1, kDecodeRows / br)); }
/// CTAs that it takes for all heads of a group (more than one: K and V are read once by each).
FLASHSCOPE_HD int decode_chunks(int br, int group) { return num_tiles(group, decode_heads(br, group)); }
/// Rows of a query head in the tile, for a group of that many heads.
FLASHSCOPE_HD constexpr int decode_block_m(int group) { return group < kDecodeRows ? kDecodeRows / group : 1; }

/// Elements of two bytes go to the tensor cores, 16 keys a warp; wider ones to the FMA units.
FLASHSCOPE_HD constexpr bool decode_on_tensor_cores(int element_bytes) { return element_bytes == 2; }
FLASHSCOPE_HD constexpr int decode_block_n(int element_bytes) { return decode_on_tensor_cores(element_bytes) ? 64 : 32; }

/// Offsets in bytes. Tiles for the tensor cores are swizzled (mma.cuh), float32 ones have smem_pitch().
struct DecodeSmemLayout {
  int q = 0;
  int k = 0;  // at the end, O in float32
  int v = 0;
  int p = 0;        // FMA units: scores, then probabilities, in float32
  int row_max = 0;  // of each row, on their way from warp to warp, and the row sums
  int row_sum = 0;
  int pages = 0;  // of K and V in pages: where those of a key tile lie; no tile has more pages than keys
  int bytes = 0;
};
FLASHSCOPE_HD constexpr DecodeSmemLayout decode_smem(int br, int bc, int width, int element_bytes, bool is_paged) {
  const bool tensor_cores = decode_on_tensor_cores(element_bytes);
  const int pitch = tensor_cores ? 2 * width : 4 * smem_pitch(width), rows = br > kDecodeRows ? br : kDecodeRows;
  const int q = rows * pitch, kv = bc * pitch, o = rows * 4 * smem_pitch(width);
  const int p = tensor_cores ? 0 : rows * 4 * smem_pitch(bc);
  const int operands = 2 * kv > o ? 2 * kv : o, statistics = q + operands + p, pages = statistics + 8 * rows;
  return {0, q, q + kv, q + operands, statistics, statistics + 4 * rows, pages, pages + (is_paged ? 4 * bc : 0)};
}

/// The combining kernel keeps the LSE of every split of its rows in shared memory; the rung is built for so many.
inline constexpr int kMaxBuiltSplits = 1024;
/// Offsets in floats.
struct CombineSmemLayout {
  int lse = 0;    // of every split and row
  int share = 0;  // each warp's share of a row of O
  int o = 0;
  int total = 0;  // LSE
  int floats = 0;
  FLASHSCOPE_HD constexpr std::int64_t bytes() const { return std::int64_t{4} * floats; }
};
FLASHSCOPE_HD constexpr CombineSmemLayout combine_smem(int br, int splits, int width) {
  const int share = br * splits, o = share + kDecodeWarps * width, total = o + br * width;
  return {0, share, o, total, total + br};
}

/// Registers a thread: the bound that the kernel is compiled with (fma_rungs.h).
FLASHSCOPE_HD constexpr int decode_registers(int width, int element_bytes) {
  if (decode_on_tensor_cores(element_bytes)) return width == 32 ? 80 : width == 64 ? 96 : width == 128 ? 128 : 192;
  return width == 32 ? 96 : width == 64 ? 112 : width == 128 ? 128 : 168;
}
inline constexpr int kCombineRegisters = 96;

/// Instructions of the compiled kernels, median over dtypes and widths: size in the sm_90a cubin by 16 bytes each.
inline constexpr int kSplitKvTensorCode = 2140, kSplitKvCode = 2500, kCombineCode = 1230;

}  // namespace flashscope
