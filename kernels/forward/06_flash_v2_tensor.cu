// Rung 06, flash_v2_tensor: the loops of flash_v2 on tensor cores, with copies under way while the CTA computes.
//
//   flashscope measure --algorithm flash_v2_tensor
//
// Over rung 05 (flash_v2) this adds
//   * mma.sync: a warp multiplies 16 × 16 by 16 × 8 in one instruction, operands in the storage dtype (fp16, bf16), sums
//     in float32 (mma.cuh);
//   * the query split over warps: each owns 32 rows (16 at head_dim 256) and every key of the tile, so a row's maximum
//     and sum need shuffles among four lanes only, and P goes from one product to the next in registers;
//   * cp.async: V of this key tile travels while Q Kᵀ is computed, K of the next while softmax and P V are.
//
//   copies     K0 | V0            | K1              | V1            | K2 ...
//   compute         S0 = Q K0ᵀ     softmax, O += P V0  S1 = Q K1ᵀ     softmax, O += P V1
//
// What it still leaves undone: a warp's exponentials wait for its products and the other way round, and Hopper's tensor
// cores reach their full rate with other, asynchronous instructions only.
#include "kernels/common/mma.cuh"
#include "kernels/forward/rungs.h"
#include "sim/problem.h"
#include "sim/schedule/tensor_rungs.h"

namespace flashscope::kernels {
namespace {

template <int kWidth>
struct MmaTile {
  static constexpr int kBlockM = mma_block_m(kWidth);
  static constexpr int kBlockN = mma_block_n(kWidth);
  static constexpr int kWarpRows = kBlockM / kMmaWarps;
  static constexpr int kM = kWarpRows / 16;  // accumulators of a warp: down its rows,
  static constexpr int kN = kBlockN / 8;     // along the keys of S,
  static constexpr int kD = kWidth / 8;      // along the columns of O
};

/// acc_o += P V, P from the registers that held S.
template <class T, class Tile>
__device__ __forceinline__ void weighted_sum(Accumulator (&acc_o)[Tile::kM][Tile::kD],
                                             const Accumulator (&acc_s)[Tile::kM][Tile::kN], unsigned lane_of_v) {
#pragma unroll
  for (int n = 0; n < Tile::kN; n += 2) {  // 16 keys at a time
    FragmentA weights[Tile::kM];
#pragma unroll
    for (int m = 0; m < Tile::kM; ++m) weights[m] = as_a<T>(acc_s[m][n], acc_s[m][n + 1]);
    add_product<T>(acc_o, weights, lane_of_v, 8 * n);
  }
}

/// Scores are left unscaled: exp2((s - max) · c) with c = |softmax_scale| · log2 e is one multiply-add and one
/// exponential. What remains of the scale is its sign; a scale of 0 makes all scores equal.
template <int kM, int kN>
__device__ __forceinline__ void apply_sign(Accumulator (&acc_s)[kM][kN], float softmax_scale) {
  if (softmax_scale > 0) return;
  const float sign = softmax_scale < 0 ? -1.0f : 0.0f;
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int n = 0; n < kN; ++n)
#pragma unroll
      for (int x = 0; x < 4; ++x) acc_s[m][n].x[x] *= sign;
}

/// -inf where the pair is not kept or the key does not exist. `row` is this thread's first.
template <int kM, int kN>
__device__ __forceinline__ void apply_mask(Accumulator (&acc_s)[kM][kN], const MaskShape& mask, int row,
                                           int first_key) {
  const int key = first_key + accumulator_col();
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
          const int at = key + 8 * n + x;
          if (at < kept.begin || at >= kept.end) acc_s[m][n].x[2 * half + x] = -INFINITY;
        }
    }
}

/// What the schedule says; code for compute capability 8.x needs more at head_dim 33 to 64, and has two CTAs an SM there
/// where Hopper has three.
__host__ __device__ constexpr int registers_here(int width) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
  if (width == 64) return 255;
#endif
  return flash_v2_tensor_registers(width);
}

template <class T, int kWidth, class Observer>
__global__ void __maxnreg__(bound<Observer>(registers_here(kWidth)))
    flash_v2_tensor(KernelParams p, Observer log) {
#if __CUDA_ARCH__ >= 800
  using Tile = MmaTile<kWidth>;
  constexpr int kBlockM = Tile::kBlockM, kBlockN = Tile::kBlockN;
  constexpr MmaSmemLayout kLayout = flash_v2_tensor_smem(kBlockM, kBlockN, kWidth);
  extern __shared__ __align__(kSmemAlignment) unsigned char shared_bytes[];
  T* const smem = reinterpret_cast<T*>(shared_bytes);
  T* const smem_q = smem + kLayout.q;  // [kBlockM][kWidth], swizzled; at the end O
  T* const smem_k = smem + kLayout.k;  // [kBlockN][kWidth], swizzled
  T* const smem_v = smem + kLayout.v;  // [kBlockN][kWidth], swizzled

  // 1. Which query tile of which head is ours, which key tiles does it see, and which rows are this thread's?
  const CtaPlace<T> at(p);
  const int m_block = at.inner;
  const Range rows = rows_of_tile(p.mask.seqlen_q, kBlockM, m_block), dims = at.dims();
  const Range n_blocks = visited_tiles(p.mask, kBlockM, kBlockN, m_block);
  const int warp_row = threadIdx.x / kWarpSize * Tile::kWarpRows;  // of the tile
  const int thread_row = warp_row + accumulator_row();
  const float scale_log2 = p.softmax_scale == 0 ? 1.0f : fabsf(p.softmax_scale) * 1.44269504f;

  // 2. Q and the first K set out together.
  zero_columns<kBlockM, kWidth>(smem_q, p.head_dim);  // they stay zero from here on
  zero_columns<kBlockN, kWidth>(smem_k, p.head_dim);
  zero_columns<kBlockN, kWidth>(smem_v, p.head_dim);
  start_load<kBlockM, kWidth>(smem_q, at.q(rows), log);
  zero_rows<kBlockM, kWidth>(smem_q, size_of(rows), p.head_dim);
  commit_copies();  // also where no key tile follows: a wait knows of nothing that was not committed
  const unsigned lane_of_q = lane_of_a<kWidth>(smem_q, warp_row), lane_of_k = lane_of_b_transposed<kWidth>(smem_k),
                 lane_of_v = lane_of_b<kWidth>(smem_v);

  Accumulator acc_o[Tile::kM][Tile::kD];
  float row_max[Tile::kM][kAccumulatorRows];  // of the unscaled scores
  float row_sum[Tile::kM][kAccumulatorRows];  // of this thread's keys; the lanes of a row are added up at the end
  clear(acc_o);
#pragma unroll
  for (int m = 0; m < Tile::kM; ++m)
#pragma unroll
    for (int half = 0; half < kAccumulatorRows; ++half) row_max[m][half] = -INFINITY, row_sum[m][half] = 0;
  log.compute(Op::clear_state, at.head, rows, dims);
  const auto start_keys = [&](T* smem_tile, const GlobalTile<T>& tile) {
    start_load<kBlockN, kWidth>(smem_tile, tile, log);
    zero_rows<kBlockN, kWidth>(smem_tile, tile.num_rows(), p.head_dim);
    commit_copies();
  };
  if (n_blocks.begin < n_blocks.end)
    start_keys(smem_k, at.k(rows_of_tile(p.mask.seqlen_k, kBlockN, n_blocks.begin)));

#pragma unroll 1
  for (int n_block = n_blocks.begin; n_block < n_blocks.end; ++n_block) {
    const Range keys = rows_of_tile(p.mask.seqlen_k, kBlockN, n_block);

    // 3. S = Q Kᵀ while V is on its way.
    wait_for_copies<0>();
    __syncthreads();  // K has arrived for all; all have read the V before
    start_keys(smem_v, at.v(keys));
    Accumulator acc_s[Tile::kM][Tile::kN];
    clear(acc_s);
    add_product_transposed<T, kWidth>(acc_s, lane_of_q, lane_of_k);
    log.compute(Op::scores, at.head, rows, keys, p.head_dim);
    apply_sign(acc_s, p.softmax_scale);
    const bool masked = !all_kept(p.mask, rows, keys);
    if (masked || size_of(keys) < kBlockN) apply_mask(acc_s, p.mask, rows.begin + thread_row, keys.begin);
    if (masked) log.compute(Op::mask, at.head, rows, keys);

    // 4. V has arrived and K has been read: the next K sets out.
    wait_for_copies<0>();
    __syncthreads();
    if (n_block + 1 < n_blocks.end) start_keys(smem_k, at.k(rows_of_tile(p.mask.seqlen_k, kBlockN, n_block + 1)));

    // 5. Online softmax, as in rung 05.
    log.compute(Op::online_softmax, at.head, rows, keys);
#pragma unroll
    for (int m = 0; m < Tile::kM; ++m)
#pragma unroll
      for (int half = 0; half < kAccumulatorRows; ++half) {
        float tile_max = -INFINITY;
#pragma unroll
        for (int n = 0; n < Tile::kN; ++n)
          tile_max = fmaxf(tile_max, fmaxf(acc_s[m][n].x[2 * half], acc_s[m][n].x[2 * half + 1]));
        const float new_max = fmaxf(row_max[m][half], quad_maximum(tile_max));
        const float base = finite_or_zero(new_max) * scale_log2;
        const float rescale = exp2_of(row_max[m][half] * scale_log2 - base);  // before row_max is overwritten
        row_max[m][half] = new_max;
        float sum = row_sum[m][half] * rescale;
#pragma unroll
        for (int n = 0; n < Tile::kN; ++n)
#pragma unroll
          for (int x = 2 * half; x < 2 * half + 2; ++x) {
            acc_s[m][n].x[x] = exp2_of(fmaf(acc_s[m][n].x[x], scale_log2, -base));
            sum += acc_s[m][n].x[x];
          }
        row_sum[m][half] = sum;
        if (__all_sync(~0u, rescale == 1)) continue;  // the maxima of a warp's rows stand still most of the time
#pragma unroll
        for (int d = 0; d < Tile::kD; ++d)
#pragma unroll
          for (int x = 2 * half; x < 2 * half + 2; ++x) acc_o[m][d].x[x] *= rescale;
      }

    // 6. acc_o += P V.
    weighted_sum<T, Tile>(acc_o, acc_s, lane_of_v);
    log.compute(Op::weighted_sum, at.head, rows, dims, size_of(keys));
  }

  // 7. One division, one write. O takes Q's place; each warp writes its own rows there.
  wait_for_copies<0>();  // Q, where no key tile was visited
  __syncthreads();       // all have read Q, and K
  float* const smem_lse = reinterpret_cast<float*>(smem_k);  // [kBlockM]
#pragma unroll
  for (int m = 0; m < Tile::kM; ++m)
#pragma unroll
    for (int half = 0; half < kAccumulatorRows; ++half) {
      const int row = thread_row + 16 * m + 8 * half;
      const float sum = quad_total(row_sum[m][half]);
      const float inverse = sum > 0 ? 1 / sum : 0;  // a row that sees no key: O = 0, LSE = -inf
#pragma unroll
      for (int d = 0; d < Tile::kD; ++d)
        *reinterpret_cast<unsigned*>(smem_q + Swizzle<kWidth>::chunk(row, d) + accumulator_col()) =
            rounded_pair<T>(acc_o[m][d].x[2 * half] * inverse, acc_o[m][d].x[2 * half + 1] * inverse);
      const float log_sum = sum > 0 ? row_max[m][half] * scale_log2 * 0.693147181f + logf(sum) : -INFINITY;
      if (threadIdx.x % 4 == 0) smem_lse[row] = log_sum;
    }
  log.compute(Op::normalize, at.head, rows, dims);
  log.compute(Op::log_sum_exp, at.head, rows, {0, 1});
  __syncthreads();
  store_rounded<kWidth>(smem_q, at.o(rows), log);
  store_tile(smem_lse, 1, at.lse(rows), log);
#endif
}

template <class T, class Observer>
const void* by_width(int head_dim) {
  switch (fma_width(head_dim)) {
    case 32: return reinterpret_cast<const void*>(&flash_v2_tensor<T, 32, Observer>);
    case 64: return reinterpret_cast<const void*>(&flash_v2_tensor<T, 64, Observer>);
    case 128: return reinterpret_cast<const void*>(&flash_v2_tensor<T, 128, Observer>);
    case 256: return reinterpret_cast<const void*>(&flash_v2_tensor<T, 256, Observer>);
    default: return nullptr;
  }
}

}  // namespace

const void* flash_v2_tensor_kernel(int, DType dtype, int head_dim, bool logged) {
  if (logged)
    return dtype == DType::bf16 && head_dim > 32 && head_dim <= 64
               ? reinterpret_cast<const void*>(&flash_v2_tensor<__nv_bfloat16, 64, OpLog>)
               : nullptr;
  if (dtype == DType::fp16) return by_width<__half, NoObserver>(head_dim);
  if (dtype == DType::bf16) return by_width<__nv_bfloat16, NoObserver>(head_dim);
  return nullptr;
}

}  // namespace flashscope::kernels
