// Warpgroups: four warps that issue wgmma together. How they meet, and how registers move from those that load to those
// that compute.
#pragma once
#include "sim/schedule/hopper_rungs.h"

namespace flashscope::kernels {

/// Registers a thread of this warpgroup has from here on: a multiple of 8. The sum over all warps stays within what the
/// CTA was launched with; who takes waits until others have given.
template <int kRegisters>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

/// Named barriers 1 … 15 (0 is __syncthreads): it opens when `threads` threads have come, those that wait and those that
/// only say that they were there.
__device__ __forceinline__ void wait_at(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ __forceinline__ void pass_by(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/// One lane of a warp, the same each time.
__device__ __forceinline__ bool is_first_lane() { return threadIdx.x % 32 == 0; }

}  // namespace flashscope::kernels
