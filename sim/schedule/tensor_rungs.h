// What a CTA of the tensor-core rungs (03, 06) occupies: tiles, threads, shared memory, registers. Compiled by the host
// for the schedules and by nvcc for the kernels, like fma_rungs.h.
#pragma once
#include <cstdint>

#include "sim/schedule/fma_rungs.h"

namespace flashscope {

inline constexpr int kMmaThreads = 128;  // four warps, each with its own rows
inline constexpr int kMmaWarps = kMmaThreads / kWarpSize;

/// Tile of flash_v2_tensor by compiled width. A warp holds 32 rows of it, so that what it reads of K and V from shared
/// memory serves two products of 16 rows; at 256 columns the registers suffice for 16.
FLASHSCOPE_HD constexpr int mma_block_m(int width) { return width <= 128 ? 128 : 64; }
/// As many keys as the registers take: what happens once a tile (two barriers, the waits for the first fragments, two
/// rounds of shuffles) then happens less often. Few keys at 64 columns get narrower tiles, of which less lies beyond the
/// last key, and three CTAs an SM. docs/deviations.md has what was tried.
/// Packed sequences and block masks: 64 keys divide blocks of 64 and 128, and are the bits of one word (kept_bits).
inline constexpr int kMmaFewKeys = 256;
FLASHSCOPE_HD constexpr int mma_block_n(int width, int seqlen_k, bool is_sparse) {
  if (is_sparse) return width <= 128 ? 64 : 32;
  return width == 64 ? (seqlen_k <= kMmaFewKeys ? 48 : 128) : width <= 128 ? 64 : 32;
}

/// Offsets in elements. The kernels exist for elements of two bytes.
struct MmaSmemLayout {
  int q = 0;  // at the end: O
  int k = 0;
  int v = 0;
  int elements = 0;
};
FLASHSCOPE_HD constexpr MmaSmemLayout flash_v2_tensor_smem(int br, int bc, int width) {
  const int q = br * width, kv = bc * width;
  return {0, q, q + kv, q + 2 * kv};
}

/// Rung 03: keys of a tile of S and P. In pass 3 a stage is a tile of P and one of V; two are held.
inline constexpr int kThreePassTensorKeys = 64;
inline constexpr int kThreePassTensorStages = 2;

// Elements in shared memory.
FLASHSCOPE_HD constexpr int three_pass_tensor_scores_smem(int br, int bc, int width) {
  const int operands = (br + bc) * width, result = br * bc;
  return operands > result ? operands : result;
}
FLASHSCOPE_HD constexpr int three_pass_tensor_stage(int br, int bc, int width) {
  return br * bc + bc * width;
}
FLASHSCOPE_HD constexpr int three_pass_tensor_weighted_sum_smem(int br, int bc, int width, int num_stages) {
  const int stages = num_stages * three_pass_tensor_stage(br, bc, width), result = br * width;
  return stages > result ? stages : result;
}

// Registers a thread, as in fma_rungs.h.
FLASHSCOPE_HD constexpr int flash_v2_tensor_registers(int width, int bc, bool is_sparse) {
  return width <= 64 && bc <= 64 && !is_sparse ? 168 : 255;
}
inline constexpr int kScoresTensorRegisters = 128;
FLASHSCOPE_HD constexpr int weighted_sum_tensor_registers(int width) {
  return width <= 64 ? 128 : width <= 128 ? 168 : 232;
}

/// Instructions of the compiled kernels: size in the sm_90a cubin by 16 bytes each, median over dtypes and widths.
inline constexpr int kScoresTensorCode = 2660, kWeightedSumTensorCode = 2190, kFlashV2TensorCode = 3350;

}  // namespace flashscope
