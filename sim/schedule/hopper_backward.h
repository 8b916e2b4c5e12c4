// What a CTA of the backward pass on Hopper occupies (rung 07): tiles, shared memory, registers. Compiled by the host for
// the schedule and by nvcc for the kernels, like hopper_rungs.h.
#pragma once
#include <cstdint>

#include "sim/schedule/hopper_rungs.h"

namespace flashscope {

/// dK and dV of a warpgroup's 64 keys lie in registers: at 256 columns they alone would take 256 of each thread.
inline constexpr int kHopperBackwardMaxHeadDim = 128;
/// Keys of a CTA: 64 a consumer warpgroup. Three warpgroups with the one that loads.
inline constexpr int kHopperBackwardKeys = 128, kHopperBackwardConsumers = 2;
inline constexpr int kHopperBackwardThreads = (1 + kHopperBackwardConsumers) * kWarpgroupThreads;
/// Queries of a tile, by compiled width: S and dP of a warpgroup are so many columns of registers beside dK and dV.
FLASHSCOPE_HD constexpr int hopper_backward_queries(int width) { return width <= 64 ? 128 : 64; }
/// Places of Q and of dO.
inline constexpr int kHopperBackwardSlots = 2;
/// Columns of a box of dQ: 128 bytes of float32.
inline constexpr int kSumBoxColumns = 32;

/// Shared memory, in bytes from an aligned start.
struct HopperBackwardSmem {
  int k = 0, v = 0;       // [bc][width], swizzled atoms
  int q = 0, d_o = 0;     // `slots` times [br][width], likewise
  int qdo_bytes = 0;      // of one slot
  int d_s = 0;            // twice [bc][br]: dS with keys as rows, of this tile and of the one before
  int ds_bytes = 0;       // of one
  int d_q = 0;            // [br][width] of float32, swizzled boxes
  int lse = 0, d = 0;     // [slots][br] of float32
  int barriers = 0;       // eight bytes each
  int bytes = 0;          // and room to align the start
};
FLASHSCOPE_HD constexpr HopperBackwardSmem hopper_backward_smem(int br, int bc, int width, int slots) {
  HopperBackwardSmem at;
  at.v = 2 * bc * width;
  at.q = 2 * at.v;
  at.qdo_bytes = 2 * br * width;
  at.d_o = at.q + slots * at.qdo_bytes;
  at.d_s = at.d_o + slots * at.qdo_bytes;
  at.ds_bytes = 2 * bc * br;
  at.d_q = at.d_s + 2 * at.ds_bytes;
  at.lse = at.d_q + 4 * br * width;
  at.d = at.lse + 4 * slots * br;
  at.barriers = at.d + 4 * slots * br;
  at.bytes = at.barriers + 8 * (1 + 4 * slots) + kAtomAlignment;
  return at;
}

/// The kernel before it: O and dO of a query tile, and a barrier; a warpgroup for every 64 rows.
FLASHSCOPE_HD constexpr int hopper_row_dot_threads(int br) { return br / kWarpgroupRows * kWarpgroupThreads; }
FLASHSCOPE_HD constexpr int hopper_row_dot_smem_bytes(int br, int width) {
  return 2 * 2 * br * width + 8 + kAtomAlignment;
}
inline constexpr int kHopperRowDotRegisters = 64;

/// The kernel after it: dQ_sum becomes dQ.
inline constexpr int kHopperRoundThreads = 256, kHopperRoundRegisters = 32;

/// Instructions of the compiled kernels. The first and the last: estimates, not read from a cubin.
inline constexpr int kHopperRowDotCode = 600, kHopperBackwardCode = 2800, kHopperRoundCode = 200;

}  // namespace flashscope
