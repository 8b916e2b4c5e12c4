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

/// One element of D = rowsum(dO ∘ O). It is added up in the order of dP's contraction: where a row sees a single key, O is
/// its V, and dP - D is 0 to the last bit, as it should be.
template <int kPitch>
__device__ __forceinline__ float row_dot(const float* smem_do, const float* smem_o, int row, int depth) {
  float sum = 0;
  for (int c = 0; c < depth; c += 4) {
    const float4 x = *reinterpret_cast<const float4*>(&smem_do[row * kPitch + c]);
    const float4 y = *reinterpret_cast<const float4*>(&smem_o[row * kPitch + c]);
    sum = fmaf(x.x, y.x, sum);
    sum = fmaf(x.y, y.y, sum);
    sum = fmaf(x.z, y.z, sum);
    sum = fmaf(x.w, y.w, sum);
  }
  return sum;
}

/// acc += Aᵀ B: what adds up over queries, where P or dS lies with queries as rows. The contraction runs down the columns
/// of both, so a thread reads its columns of A one by one.
template <int kDepth, int kRows, int kCols>
__device__ __forceinline__ void add_product_down(float (&acc)[kRows][kCols], const float* a, int a_pitch, const float* b,
                                                 int b_pitch) {
  constexpr int kVec = kCols < 4 ? kCols : 4;
  a += thread_row();
  b += thread_col() * kVec;
#pragma unroll 2
  for (int k = 0; k < kDepth; ++k, a += a_pitch, b += b_pitch) {
    float y[kCols];
#pragma unroll
    for (int c = 0; c < kCols; c += kVec) {
      const float* const at = &b[c * kFmaThreadCols];
      if constexpr (kVec == 4) {
        const float4 four = *reinterpret_cast<const float4*>(at);
        y[c] = four.x, y[c + 1] = four.y, y[c + 2] = four.z, y[c + 3] = four.w;
      } else {
        static_assert(kVec == 2);
        const float2 two = *reinterpret_cast<const float2*>(at);
        y[c] = two.x, y[c + 1] = two.y;
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float weight = a[r * kFmaThreadRows];
#pragma unroll
      for (int c = 0; c < kCols; ++c) acc[r][c] = fmaf(weight, y[c], acc[r][c]);
    }
  }
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
