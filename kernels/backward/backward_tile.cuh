// What the backward kernels share beyond tile.cuh: their tile, and the pieces of the chain rule that stay in registers.
#pragma once
#include "kernels/common/tile.cuh"
#include "sim/schedule/fma_backward.h"

namespace flashscope::kernels {

/// The tile that the backward kernels are built with, by compiled width: fma_backward_tile() in algorithms.cpp.
template <int kWidth>
struct BackwardTile {
  static constexpr int kBlockM = kWidth <= 64 ? 64 : 32;
  static constexpr int kBlockN = kWidth <= 128 ? 64 : 32;
  static constexpr int kRows = kBlockM / kFmaThreadRows;     // of S and dQ a thread
  static constexpr int kKeys = kBlockN / kFmaThreadCols;     // of S
  static constexpr int kKeyRows = kBlockN / kFmaThreadRows;  // of dK and dV
  static constexpr int kCols = kWidth / kFmaThreadCols;      // of dQ, dK, dV
  static constexpr int kPitch = smem_pitch(kWidth);
};

/// A scores accumulator put into shared memory with keys as rows: for products that add up over queries.
template <int kRows, int kCols>
__device__ __forceinline__ void stage_scores_transposed(float* smem, int pitch, const float (&acc)[kRows][kCols]) {
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int c = 0; c < kCols; ++c) smem[key_of(c) * pitch + row_of(r)] = acc[r][c];
}

/// A row past the end gets LSE = +inf: all its P are 0, and what is added up over queries does not see it.
template <int kBlockM>
__device__ __forceinline__ void blank_rest(float* smem_lse, float* smem_d, int rows) {
  for (int n = rows + threadIdx.x; n < kBlockM; n += blockDim.x) smem_lse[n] = INFINITY, smem_d[n] = 0;
}

/// P = exp(S - LSE): the probabilities themselves, no sum is needed. Rows that see no key have LSE = -inf and P = 0.
template <int kRows, int kKeys>
__device__ __forceinline__ void scores_to_probabilities(float (&acc_s)[kRows][kKeys], const float* smem_lse) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float base = finite_or_zero(smem_lse[row_of(r)]);
#pragma unroll
    for (int c = 0; c < kKeys; ++c) acc_s[r][c] = exp_of(acc_s[r][c] - base);
  }
}

/// dS = P ∘ (dP - D), in the place of dP.
template <int kRows, int kKeys>
__device__ __forceinline__ void to_score_gradients(float (&acc_dp)[kRows][kKeys], const float (&p)[kRows][kKeys],
                                                   const float* smem_d) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float d = smem_d[row_of(r)];
#pragma unroll
    for (int c = 0; c < kKeys; ++c) acc_dp[r][c] = p[r][c] * (acc_dp[r][c] - d);
  }
}

template <int kRows, int kCols>
__device__ __forceinline__ void scale(float (&acc)[kRows][kCols], float factor) {
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int c = 0; c < kCols; ++c) acc[r][c] *= factor;
}

}  // namespace flashscope::kernels
