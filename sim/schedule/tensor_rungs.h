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
FLASHSCOPE_HD constexpr int mma_block_n(int width) { return width <= 64 ? 64 : width <= 128 ? 48 : 32; }

/// Offsets in elements of two bytes; rows are eight elements longer than the tile (mma.cuh).
struct MmaSmemLayout {
  int q = 0;  // at the end: O
  int k = 0;
  int v = 0;
  int elements = 0;
  FLASHSCOPE_HD constexpr std::int64_t bytes() const { return std::int64_t{2} * elements; }
};
FLASHSCOPE_HD constexpr MmaSmemLayout flash_v2_tensor_smem(int br, int bc, int width) {
  const int q = br * (width + 8), kv = bc * (width + 8);
  return {0, q, q + kv, q + 2 * kv};
}

/// Rung 03: side of a tile of S in pass 1; keys of a block of P and V in pass 3, of which two are held (a stage: one).
inline constexpr int kScoresBlock = 128;
inline constexpr int kWeightedSumKeys = 64;
FLASHSCOPE_HD constexpr int three_pass_tensor_stage(int width) {  // elements
  return mma_block_m(width) * (kWeightedSumKeys + 8) + kWeightedSumKeys * (width + 8);
}
FLASHSCOPE_HD constexpr std::int64_t three_pass_tensor_scores_smem(int width) {
  const int operands = 2 * kScoresBlock * (width + 8), result = kScoresBlock * (kScoresBlock + 8);
  return std::int64_t{2} * (operands > result ? operands : result);
}
FLASHSCOPE_HD constexpr std::int64_t three_pass_tensor_weighted_sum_smem(int width) {
  const int stages = 2 * three_pass_tensor_stage(width), result = mma_block_m(width) * (width + 8);
  return std::int64_t{2} * (stages > result ? stages : result);
}

FLASHSCOPE_HD constexpr int flash_v2_tensor_registers(int) { return 255; }

}  // namespace flashscope
