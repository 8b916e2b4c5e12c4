// What a CTA of the backward pass on tensor cores occupies (rung 06): tiles, shared memory, registers. Compiled by the
// host for the schedule and by nvcc for the kernels, like tensor_rungs.h.
#pragma once
#include <cstdint>

#include "sim/schedule/tensor_rungs.h"

namespace flashscope {

/// dK and dV of a CTA's keys stay in registers: at 256 columns they alone would take every one that a thread can have.
inline constexpr int kTensorBackwardMaxHeadDim = 128;

/// Rows of a query tile, and of a key tile, by compiled width. The same number, because each is the owner in one kernel
/// and streamed in the other. A warp owns 32 rows, so that what it reads of the streamed tiles serves two products of 16
/// rows; at 128 columns the registers suffice for 16.
FLASHSCOPE_HD constexpr int mma_backward_block(int width) { return width <= 64 ? 128 : 64; }
/// Streamed rows that a warp takes at a time: its part of S and of dP dies before the next. The more, the more products
/// does each read of the owned rows serve; beside dK and dV there are registers for 32.
FLASHSCOPE_HD constexpr int mma_backward_chunk(bool by_key) { return by_key ? 32 : 64; }
/// Places of the streamed tiles: one is computed with, one is loaded.
inline constexpr int kMmaBackwardStages = 2;

/// Offsets in elements of the kernels' two bytes. `owned`: K and V (at the end dK and dV), or Q (dQ) and dO. `streamed`:
/// the stages, each a tile of Q and one of dO, or of K and V. `statistics`: LSE and D, float32, of each stage or of the
/// CTA's own rows.
struct MmaBackwardSmem {
  int owned[2] = {};
  int streamed = 0;
  int stage = 0;  // from one to the next; its second tile lies in the middle
  int statistics = 0;
  int elements = 0;
  int floats = 0;  // of the statistics
  FLASHSCOPE_HD constexpr std::int64_t bytes(int element_bytes) const {
    return std::int64_t{element_bytes} * elements + std::int64_t{4} * floats;
  }
};
FLASHSCOPE_HD constexpr MmaBackwardSmem mma_backward_smem(int br, int bc, int width, int stages, bool by_key) {
  const int owned = (by_key ? bc : br) * width, stage = 2 * (by_key ? br : bc) * width;
  const int elements = 2 * owned + stages * stage;
  return {{0, owned}, 2 * owned, stage, elements, elements, 2 * br * (by_key ? stages : 1)};
}

/// O and dO, and D on its way out.
FLASHSCOPE_HD constexpr std::int64_t mma_row_dot_smem_bytes(int br, int width, int element_bytes) {
  return std::int64_t{element_bytes} * 2 * br * width + std::int64_t{4} * br;
}

// Registers a thread, as in fma_rungs.h.
FLASHSCOPE_HD constexpr int row_dot_tensor_registers(int width) { return width == 32 ? 32 : 48; }
inline constexpr int kKeyGradientsTensorRegisters = 255;
inline constexpr int kQueryGradientTensorRegisters = 255;

/// Instructions of the compiled kernels for sm_90a, bf16, head_dim 64.
inline constexpr int kRowDotTensorCode = 864, kKeyGradientsTensorCode = 2968, kQueryGradientTensorCode = 3096;

}  // namespace flashscope
