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

FLASHSCOPE_HD constexpr int flash_v2_tensor_registers(int) { return 255; }

}  // namespace flashscope
