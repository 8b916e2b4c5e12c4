// wgmma: a warpgroup's matrix product on Hopper's tensor cores (PTX manual, "wgmma.mma_async"). 64 rows × N columns, 16
// deep, sums in float32. It runs while the warps go on:
//
//   before_products()   the registers that it will use have been written
//   multiply…()         issued, any number
//   commit_products()   these are one group
//   wait_for_products<n>()   until at most n groups are under way
//   settle(acc)         from here on the accumulators may be touched: the compiler must not move their uses up
//
// B, and A of a product of scores, are read from shared memory by the tensor core itself, through a descriptor. The
// accumulator of thread t (warp w = t / 32, lane l = t % 32) holds rows 16 w + l / 4 (c[4n], c[4n + 1]) and that + 8
// (c[4n + 2], c[4n + 3]), columns 8 n + 2 (l % 4) and the next: mma.sync's layout, four times. Rounded in pairs it is an
// A of the next product: P never leaves its registers.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "kernels/hopper/tma.cuh"

namespace flashscope::kernels {

// ---- descriptors ----------------------------------------------------------------------------------------------------

/// Where an operand lies, in units of 16 bytes: address, two strides, swizzle of 128 bytes. Adding to it moves the
/// address (which needs 14 bits; an SM has 228 KiB).
using Descriptor = std::uint64_t;

__device__ __forceinline__ constexpr Descriptor units(int bytes) { return static_cast<Descriptor>(bytes / 16); }

/// Rows along the memory rows, depth along the 128 bytes of an atom (Q, K): the stride is from eight rows to the next.
/// The other stride is not used.
__device__ __forceinline__ Descriptor descriptor_along_depth(unsigned smem) {
  return units(smem & 0x3ffff) | Descriptor{1} << 16 | units(8 * kAtomRowBytes) << 32 | Descriptor{1} << 62;
}
/// 16 elements deeper: within an atom, then in the next one.
template <int kAtomRows>
__device__ __forceinline__ constexpr Descriptor deeper(int step) {
  return units(step / 4 * kAtomRows * kAtomRowBytes + step % 4 * 32);
}

/// Depth along the memory rows, columns along the 128 bytes (V): the tensor core transposes. The strides are from one
/// atom of 64 columns to the next, and from eight keys to the next.
__device__ __forceinline__ Descriptor descriptor_across_depth(unsigned smem, int atom_bytes) {
  return units(smem & 0x3ffff) | units(atom_bytes) << 16 | units(8 * kAtomRowBytes) << 32 | Descriptor{1} << 62;
}

// ---- products -------------------------------------------------------------------------------------------------------

// Operand lists, eight accumulators at a time.
#define FS_C(n) "+f"(c[n]), "+f"(c[n + 1]), "+f"(c[n + 2]), "+f"(c[n + 3]), "+f"(c[n + 4]), "+f"(c[n + 5]), \
                "+f"(c[n + 6]), "+f"(c[n + 7])
#define FS_C32 FS_C(0), FS_C(8), FS_C(16), FS_C(24)
#define FS_D32 "%0, %1, %2, %3, %4, %5, %6, %7" ", %8, %9, %10, %11, %12, %13, %14, %15" \
  ", %16, %17, %18, %19, %20, %21, %22, %23" ", %24, %25, %26, %27, %28, %29, %30, %31"
#define FS_C40 FS_C32, FS_C(32)
#define FS_D40 FS_D32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define FS_C64 FS_C40, FS_C(40), FS_C(48), FS_C(56)
#define FS_D64 FS_D40 ", %40, %41, %42, %43, %44, %45, %46, %47" ", %48, %49, %50, %51, %52, %53, %54, %55" \
  ", %56, %57, %58, %59, %60, %61, %62, %63"
#define FS_C80 FS_C64, FS_C(64), FS_C(72)
#define FS_D80 FS_D64 ", %64, %65, %66, %67, %68, %69, %70, %71" ", %72, %73, %74, %75, %76, %77, %78, %79"
#define FS_C88 FS_C80, FS_C(80)
#define FS_D88 FS_D80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define FS_C96 FS_C88, FS_C(88)
#define FS_D96 FS_D88 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define FS_C128 FS_C96, FS_C(96), FS_C(104), FS_C(112), FS_C(120)
#define FS_D128 FS_D96 ", %96, %97, %98, %99, %100, %101, %102, %103" \
  ", %104, %105, %106, %107, %108, %109, %110, %111" ", %112, %113, %114, %115, %116, %117, %118, %119" \
  ", %120, %121, %122, %123, %124, %125, %126, %127"

// One instruction: N columns = 2 · C accumulators a thread; a, b, … are the numbers of the operands behind these.
#define FS_SHARED(N, C, type, a, b, p)                                                                       \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" #p ", 0;\n"                                          \
               "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type " {" FS_D##C "}, %" #a ", %" #b \
               ", add, 1, 1, 0, 0;\n}"                                                                       \
               : FS_C##C                                                                                     \
               : "l"(a_at), "l"(b_at), "n"(int{kAdd}))
#define FS_REGISTERS(N, C, type, a, b, d, e, f)                                                              \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type " {" FS_D##C "}, {%" #a ", %" #b \
               ", %" #d ", %" #e "}, %" #f ", 1, 1, 1, 1;"                                                   \
               : FS_C##C                                                                                     \
               : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b_at))
#define FS_ACROSS(N, C, type, a, b)                                                                          \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type " {" FS_D##C "}, %" #a ", %" #b \
               ", 1, 1, 1, 1, 1;"                                                                            \
               : FS_C##C                                                                                     \
               : "l"(a_at), "l"(b_at))
// The first of a sum: what the accumulators held before is not even named, so that the compiler may have them written
// to while other products are under way.
#define FS_E(n) "=f"(c[n]), "=f"(c[n + 1]), "=f"(c[n + 2]), "=f"(c[n + 3]), "=f"(c[n + 4]), "=f"(c[n + 5]), \
                "=f"(c[n + 6]), "=f"(c[n + 7])
#define FS_E32 FS_E(0), FS_E(8), FS_E(16), FS_E(24)
#define FS_E64 FS_E32, FS_E(32), FS_E(40), FS_E(48), FS_E(56)
#define FS_FIRST(N, C, type, a, b, x)                                                                        \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, 0, 0;\n"                                                \
               "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type " {" FS_D##C "}, %" #a ", %" #b \
               ", add, 1, 1, " #x ", " #x ";\n}"                                                             \
               : FS_E##C                                                                                     \
               : "l"(a_at), "l"(b_at))
#define FS_BY_TYPE(instruction, N, C, ...)                           \
  if constexpr (kColumns == N) {                                     \
    if constexpr (std::is_same_v<T, __half>)                         \
      instruction(N, C, "f16", __VA_ARGS__);                         \
    else                                                             \
      instruction(N, C, "bf16", __VA_ARGS__);                        \
  }

/// c = A Bᵀ (or c += …), 16 deep: 64 rows of A, kColumns rows of B, both from shared memory, depth along their rows.
template <class T, bool kAdd, int kAccumulators>
__device__ __forceinline__ void multiply_transposed(float (&c)[kAccumulators], Descriptor a_at, Descriptor b_at) {
  constexpr int kColumns = 2 * kAccumulators;
  static_assert(kColumns == 64 || kColumns == 80 || kColumns == 128 || kColumns == 160 || kColumns == 176 ||
                kColumns == 192 || kColumns == 256);
  FS_BY_TYPE(FS_SHARED, 64, 32, 32, 33, 34)
  FS_BY_TYPE(FS_SHARED, 80, 40, 40, 41, 42)
  FS_BY_TYPE(FS_SHARED, 128, 64, 64, 65, 66)
  FS_BY_TYPE(FS_SHARED, 160, 80, 80, 81, 82)
  FS_BY_TYPE(FS_SHARED, 176, 88, 88, 89, 90)
  FS_BY_TYPE(FS_SHARED, 192, 96, 96, 97, 98)
  FS_BY_TYPE(FS_SHARED, 256, 128, 128, 129, 130)
}

/// c += A B, 16 deep: A from registers, B's 16 rows of kColumns from shared memory.
template <class T, int kAccumulators>
__device__ __forceinline__ void multiply_add(float (&c)[kAccumulators], unsigned a0, unsigned a1, unsigned a2,
                                             unsigned a3, Descriptor b_at) {
  constexpr int kColumns = 2 * kAccumulators;
  static_assert(kColumns == 64 || kColumns == 128 || kColumns == 256);
  FS_BY_TYPE(FS_REGISTERS, 64, 32, 32, 33, 34, 35, 36)
  FS_BY_TYPE(FS_REGISTERS, 128, 64, 64, 65, 66, 67, 68)
  FS_BY_TYPE(FS_REGISTERS, 256, 128, 128, 129, 130, 131, 132)
}

/// c = A Bᵀ as multiply_transposed<T, false>(), for accumulators that are used while other products are under way.
template <class T, int kAccumulators>
__device__ __forceinline__ void multiply_transposed_first(float (&c)[kAccumulators], Descriptor a_at, Descriptor b_at) {
  constexpr int kColumns = 2 * kAccumulators;
  static_assert(kColumns == 64 || kColumns == 128);
  FS_BY_TYPE(FS_FIRST, 64, 32, 32, 33, 0)
  FS_BY_TYPE(FS_FIRST, 128, 64, 64, 65, 0)
}

/// c = Aᵀ B, 16 deep: 16 rows of A, 64 columns wide, and of B, kColumns wide, both from shared memory.
template <class T, int kAccumulators>
__device__ __forceinline__ void multiply_across_first(float (&c)[kAccumulators], Descriptor a_at, Descriptor b_at) {
  constexpr int kColumns = 2 * kAccumulators;
  static_assert(kColumns == 64);
  FS_BY_TYPE(FS_FIRST, 64, 32, 32, 33, 1)
}
/// c += Aᵀ B.
template <class T, int kAccumulators>
__device__ __forceinline__ void multiply_add_across(float (&c)[kAccumulators], Descriptor a_at, Descriptor b_at) {
  constexpr int kColumns = 2 * kAccumulators;
  static_assert(kColumns == 64);
  FS_BY_TYPE(FS_ACROSS, 64, 32, 32, 33)
}

#undef FS_SHARED
#undef FS_ACROSS
#undef FS_FIRST
#undef FS_REGISTERS
#undef FS_BY_TYPE

__device__ __forceinline__ void before_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kLeft>
__device__ __forceinline__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}
template <int kAccumulators>
__device__ __forceinline__ void settle(float (&c)[kAccumulators]) {
#pragma unroll
  for (int n = 0; n < kAccumulators; ++n) asm volatile("" : "+f"(c[n])::"memory");
}

}  // namespace flashscope::kernels
