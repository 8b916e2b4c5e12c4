// wgmma on e4m3 (PTX manual, "wgmma.mma_async"): twice the rate of 16-bit elements, 32 deep. wgmma.cuh has the order of
// calls and the accumulators; two things differ.
//
//   * Both operands lie along the depth, always: the tensor core transposes no bytes.
//   * A from registers: thread (g, t) = (lane / 4, lane % 4) holds depths 4t … 4t + 3 and 16 + 4t … 16 + 4t + 3 of rows g
//     and g + 8, four to a register: (g, 4t) (g + 8, 4t) (g, 16 + 4t) (g + 8, 16 + 4t). An accumulator has other columns in
//     this thread: see key_at() in fp8_rung.h.
#pragma once
#include "kernels/hopper/wgmma.cuh"
#include "sim/schedule/fp8_rung.h"

namespace flashscope::kernels {

/// Atoms whose rows have kRowBytes = 128 or 64 bytes along the depth, swizzled as TMA does it for boxes of that width:
/// chunks of 16 bytes change places within eight rows, or within pairs of rows. The stride is from eight rows to the next.
template <int kRowBytes>
__device__ __forceinline__ Descriptor fp8_descriptor(unsigned smem) {
  static_assert(kRowBytes == 128 || kRowBytes == 64);
  constexpr Descriptor kSwizzle = kRowBytes == 128 ? 1 : 2;
  return units(smem & 0x3ffff) | Descriptor{1} << 16 | units(8 * kRowBytes) << 32 | kSwizzle << 62;
}
/// 32 elements deeper: within an atom of kAtomRows rows, then in the next one.
template <int kRowBytes, int kAtomRows>
__device__ __forceinline__ constexpr Descriptor fp8_deeper(int step) {
  constexpr int kSteps = kRowBytes / kFp8StepDepth;
  return units(step / kSteps * kAtomRows * kRowBytes + step % kSteps * kFp8StepDepth);
}

#define FS_FP8_SHARED(N, C, a, b, p)                                                                                \
  if constexpr (kColumns == N)                                                                                      \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" #p ", 0;\n"                                                 \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32.e4m3.e4m3 {" FS_D##C "}, %" #a ", %" #b            \
                 ", add, 1, 1;\n}"                                                                                  \
                 : FS_C##C                                                                                          \
                 : "l"(a_at), "l"(b_at), "n"(int{kAdd}))
#define FS_FP8_REGISTERS(N, C, a, b, d, e, f)                                                                       \
  if constexpr (kColumns == N)                                                                                      \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k32.f32.e4m3.e4m3 {" FS_D##C "}, {%" #a ", %" #b           \
                 ", %" #d ", %" #e "}, %" #f ", 1, 1, 1;"                                                           \
                 : FS_C##C                                                                                          \
                 : "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]), "l"(b_at))

/// c = A Bᵀ (or c += …), 32 deep: 64 rows of A, kColumns rows of B, both from shared memory.
template <bool kAdd, int kAccumulators>
__device__ __forceinline__ void fp8_multiply_transposed(float (&c)[kAccumulators], Descriptor a_at, Descriptor b_at) {
  constexpr int kColumns = 2 * kAccumulators;
  static_assert(kColumns == 64 || kColumns == 128 || kColumns == 192);
  FS_FP8_SHARED(64, 32, 32, 33, 34);
  FS_FP8_SHARED(128, 64, 64, 65, 66);
  FS_FP8_SHARED(192, 96, 96, 97, 98);
}

/// c += A Bᵀ, 32 deep: A from registers, B's kColumns rows from shared memory.
template <int kAccumulators>
__device__ __forceinline__ void fp8_multiply_add(float (&c)[kAccumulators], const unsigned (&rows)[4], Descriptor b_at) {
  constexpr int kColumns = 2 * kAccumulators;
  static_assert(kColumns == 64 || kColumns == 128 || kColumns == 256);
  FS_FP8_REGISTERS(64, 32, 32, 33, 34, 35, 36);
  FS_FP8_REGISTERS(128, 64, 64, 65, 66, 67, 68);
  FS_FP8_REGISTERS(256, 128, 128, 129, 130, 131, 132);
}

#undef FS_FP8_SHARED
#undef FS_FP8_REGISTERS

/// Four floats rounded to e4m3, the first in the lowest byte. What is too large becomes ±448.
__device__ __forceinline__ unsigned rounded_to_e4m3(float x0, float x1, float x2, float x3) {
  unsigned bits;
  asm("{\n.reg .b16 low, high;\n"
      "cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n"
      "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n"
      "mov.b32 %0, {low, high};\n}"
      : "=r"(bits)
      : "f"(x0), "f"(x1), "f"(x2), "f"(x3));
  return bits;
}

/// Of fp16: two pairs.
__device__ __forceinline__ unsigned rounded_to_e4m3(__half2 x01, __half2 x23) {
  unsigned bits;
  asm("{\n.reg .b16 low, high;\n"
      "cvt.rn.satfinite.e4m3x2.f16x2 low, %1;\n"
      "cvt.rn.satfinite.e4m3x2.f16x2 high, %2;\n"
      "mov.b32 %0, {low, high};\n}"
      : "=r"(bits)
      : "r"(*reinterpret_cast<const unsigned*>(&x01)), "r"(*reinterpret_cast<const unsigned*>(&x23)));
  return bits;
}
/// To e4m3 and back.
__device__ __forceinline__ __half2 through_e4m3(__half2 x) {
  unsigned bits = *reinterpret_cast<const unsigned*>(&x);
  asm("{\n.reg .b16 bytes;\n"
      "cvt.rn.satfinite.e4m3x2.f16x2 bytes, %0;\n"
      "cvt.rn.f16x2.e4m3x2 %0, bytes;\n}"
      : "+r"(bits));
  return *reinterpret_cast<const __half2*>(&bits);
}

}  // namespace flashscope::kernels
