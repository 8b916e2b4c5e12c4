// What the backward kernels on tensor cores share beyond mma.cuh: their tile, row statistics on their way to shared
// memory, and the pieces of the chain rule that stay in the registers of a warp.
#pragma once
#include "kernels/backward/place.cuh"
#include "kernels/common/mma.cuh"
#include "sim/schedule/tensor_backward.h"

namespace flashscope::kernels {

/// "Rows" are those that a warp owns: queries in the kernel of dQ, keys in that of dK and dV. Its part of S or of Sᵀ has
/// a chunk of the streamed tile's rows as columns.
template <int kWidth, bool kByKey, class Observer>
struct MmaBackwardTile {
  static constexpr int kBlockM = mma_backward_block(kWidth);
  static constexpr int kBlockN = mma_backward_block(kWidth);
  /// Halved where a log is kept, which needs registers too; it speaks of tiles.
  static constexpr int kChunk = mma_backward_chunk(kByKey) / (std::is_same_v<Observer, NoObserver> ? 1 : 2);
  static constexpr int kWarpRows = kBlockM / kMmaWarps;
  static constexpr int kM = kWarpRows / 16;  // accumulators of a warp: down its rows,
  static constexpr int kN = kChunk / 8;      // along a chunk,
  static constexpr int kD = kWidth / 8;      // along the columns of a gradient
  static constexpr unsigned kRowBytes = Swizzle<kWidth>::kRowBytes;
  static_assert(kBlockM == kBlockN && kBlockM <= kMmaThreads && kBlockM % kChunk == 0);
};

// ---- LSE and D ------------------------------------------------------------------------------------------------------

/// A row a thread; the load is under way until the value is used. `beyond`: what rows past the end get.
template <class Observer>
__device__ __forceinline__ float start_statistic(const GlobalTile<float>& t, float beyond, Observer& observer) {
  observer.load(t);
  const int row = threadIdx.x;
  return row < t.num_rows() ? load_cg<float, 1>(t.base + t.first() + row).values[0] : beyond;
}

/// As the pieces below ask for it: two neighbouring columns n of half a block m. Of an accumulator's rows, in registers …
template <int kM>
struct OfRows {
  float x[kM][kAccumulatorRows];
  __device__ __forceinline__ float2 operator()(int m, int half, int) const { return {x[m][half], x[m][half]}; }
};
/// … or of its columns, in shared memory.
struct OfColumns {
  const float* first;  // of this thread
  __device__ __forceinline__ float2 operator()(int, int, int n) const {
    return *reinterpret_cast<const float2*>(first + 8 * n);
  }
};

// ---- the chain rule -------------------------------------------------------------------------------------------------

/// P = exp(softmax_scale · S - LSE), in the place of S. The difference comes before the change to base 2: it is rounded
/// once, and small where the two cancel.
template <int kM, int kN, class Lse>
__device__ __forceinline__ void to_probabilities(Accumulator (&acc_s)[kM][kN], float softmax_scale, const Lse& lse) {
#pragma unroll
  for (int n = 0; n < kN; ++n)
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int half = 0; half < kAccumulatorRows; ++half) {
        const float2 base = lse(m, half, n);
        float* const x = &acc_s[m][n].x[2 * half];
        x[0] = exp2_of(fmaf(x[0], softmax_scale, -base.x) * 1.44269504f);
        x[1] = exp2_of(fmaf(x[1], softmax_scale, -base.y) * 1.44269504f);
      }
}

/// P = 0 where the pair is not kept, which is what a score of -inf comes to whatever the sign of the scale. `row` is
/// this thread's first in the mask, `first_col` the chunk's.
template <int kM, int kN>
__device__ __forceinline__ void drop_masked(Accumulator (&acc_p)[kM][kN], const MaskShape& mask, int row,
                                            int first_col) {
  const int col = first_col + accumulator_col();
  row = opaque(row);
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int half = 0; half < kAccumulatorRows; ++half) {
      const Range kept = kept_keys(mask, row + 16 * m + 8 * half);
#pragma unroll
      for (int n = 0; n < kN; ++n)
#pragma unroll
        for (int x = 0; x < 2; ++x) {
          const int at = col + 8 * n + x;
          if (at < kept.begin || at >= kept.end) acc_p[m][n].x[2 * half + x] = 0;
        }
    }
}

/// dS = P ∘ (dP - D), in the place of dP.
template <int kM, int kN, class D>
__device__ __forceinline__ void to_score_gradients(Accumulator (&acc_dp)[kM][kN], const Accumulator (&p)[kM][kN],
                                                   const D& d) {
#pragma unroll
  for (int n = 0; n < kN; ++n)
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int half = 0; half < kAccumulatorRows; ++half) {
        const float2 mean = d(m, half, n);
        float* const x = &acc_dp[m][n].x[2 * half];
        x[0] = p[m][n].x[2 * half] * (x[0] - mean.x);
        x[1] = p[m][n].x[2 * half + 1] * (x[1] - mean.y);
      }
}

/// gradient += left · (8 kN rows of a row-major tile, from lane_of_b() on): P or dS goes from its accumulators into the
/// next product, rounded on the way.
template <class T, int kM, int kN, int kD>
__device__ __forceinline__ void add_to_gradient(Accumulator (&gradient)[kM][kD], const Accumulator (&left)[kM][kN],
                                                unsigned rows) {
#pragma unroll
  for (int n = 0; n < kN; n += 2) {  // 16 rows at a time
    FragmentA a[kM];
#pragma unroll
    for (int m = 0; m < kM; ++m) a[m] = as_a<T>(left[m][n], left[m][n + 1]);
    add_product<T>(gradient, a, rows, 8 * n);
  }
}

/// A warp's rows of a gradient, scaled and rounded, into a swizzled tile.
template <class T, int kWidth, int kM>
__device__ __forceinline__ void stage_gradient(T* smem, const Accumulator (&gradient)[kM][kWidth / 8], int thread_row,
                                               float factor) {
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int half = 0; half < kAccumulatorRows; ++half)
#pragma unroll
      for (int d = 0; d < kWidth / 8; ++d)
        *reinterpret_cast<unsigned*>(smem + Swizzle<kWidth>::chunk(thread_row + 16 * m + 8 * half, d) +
                                     accumulator_col()) =
            rounded_pair<T>(gradient[m][d].x[2 * half] * factor, gradient[m][d].x[2 * half + 1] * factor);
}

}  // namespace flashscope::kernels
