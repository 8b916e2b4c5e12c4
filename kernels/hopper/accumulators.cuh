// Where accumulators of wgmma go: into the next product, or to global memory.
#pragma once
#include "kernels/common/mma.cuh"
#include "kernels/hopper/wgmma.cuh"

namespace flashscope::kernels {

/// Rounded, as A of the next product: sixteen keys a row of the array.
template <class T, int kScores>
__device__ __forceinline__ void round_to_a(unsigned (&p)[kScores / 8][4], const float (&acc_s)[kScores]) {
#pragma unroll
  for (int n = 0; n < kScores / 8; ++n)
#pragma unroll
    for (int x = 0; x < 4; ++x) p[n][x] = rounded_pair<T>(acc_s[8 * n + 2 * x], acc_s[8 * n + 2 * x + 1]);
}

/// Divided and rounded, straight to global memory. The four lanes of a row exchange what they hold, so that each writes
/// 16 bytes and all together two whole sectors.
template <class T, int kOutputs>
__device__ __forceinline__ void store_output(const float (&acc_o)[kOutputs], const float (&inverse)[kAccumulatorRows],
                                             T* o, int row, int rows_end, int head_dim) {
  const int lane = threadIdx.x % 4;
#pragma unroll
  for (int half = 0; half < kAccumulatorRows; ++half)
#pragma unroll
    for (int d = 0; d < kOutputs / 16; ++d) {  // 32 columns: four groups of eight
      unsigned x[4];
#pragma unroll
      for (int n = 0; n < 4; ++n)
        x[n] = rounded_pair<T>(acc_o[16 * d + 4 * n + 2 * half] * inverse[half],
                               acc_o[16 * d + 4 * n + 2 * half + 1] * inverse[half]);
      // A transpose of 4 × 4 words: lane l's word n becomes lane n's word l.
      const bool odd = lane & 1, upper = lane & 2;
      const unsigned a = __shfl_xor_sync(~0u, odd ? x[0] : x[1], 1), b = __shfl_xor_sync(~0u, odd ? x[2] : x[3], 1);
      (odd ? x[0] : x[1]) = a, (odd ? x[2] : x[3]) = b;
      const unsigned c = __shfl_xor_sync(~0u, upper ? x[0] : x[2], 2), e = __shfl_xor_sync(~0u, upper ? x[1] : x[3], 2);
      (upper ? x[0] : x[2]) = c, (upper ? x[1] : x[3]) = e;
      const int col = 32 * d + 8 * lane;
      if (row + 8 * half < rows_end && col < head_dim)
        __stcg(reinterpret_cast<uint4*>(o + static_cast<std::int64_t>(row + 8 * half) * head_dim + col),
               make_uint4(x[0], x[1], x[2], x[3]));
    }
}

}  // namespace flashscope::kernels
