// Rung 03, three_pass_tensor: S = QKᵀ, P = softmax(S), O = PV as three kernels, the products on tensor cores.
//
//   flashscope measure --algorithm three_pass_tensor
//
// Over rung 02 (three_pass) this adds mma.sync and cp.async (mma.cuh). It is the fair baseline: what standard attention
// costs when its products are fast. They then take less time than S and P take to travel, so this rung shows best what
// tiling saves. Pass 2 is rung 02's.
//
// What it still leaves undone: the products stop for each barrier.
#include "kernels/common/mma.cuh"
#include "kernels/common/row_softmax.cuh"
#include "kernels/forward/rungs.h"
#include "sim/problem.h"
#include "sim/schedule/tensor_rungs.h"

namespace flashscope::kernels {
namespace {

/// Pass 1: S = softmax_scale · Q Kᵀ, masked, in the storage dtype. One CTA a tile of S, one warp a quarter of its rows.
template <class T, int kWidth, class Observer>
__global__ void __maxnreg__(bound<Observer>(kScoresTensorRegisters))
    three_pass_tensor_scores(KernelParams p, Observer log) {
#if __CUDA_ARCH__ >= 800
  constexpr int kBlockM = mma_block_m(kWidth), kBlockN = kThreePassTensorKeys;
  constexpr int kWarpRows = kBlockM / kMmaWarps, kM = kWarpRows / 16, kN = kBlockN / 8;
  extern __shared__ __align__(kSmemAlignment) unsigned char shared_bytes[];
  T* const smem_q = reinterpret_cast<T*>(shared_bytes);  // [kBlockM][kWidth], swizzled
  T* const smem_k = smem_q + kBlockM * kWidth;           // [kBlockN][kWidth], swizzled
  T* const smem_s = smem_q;                              // [kBlockM][kBlockN], swizzled, over Q and K

  const CtaPlace<T> at(p);
  const int n_blocks = num_tiles(p.mask.seqlen_k, kBlockN);
  const Range rows = rows_of_tile(p.mask.seqlen_q, kBlockM, at.inner / n_blocks);
  const Range keys = rows_of_tile(p.mask.seqlen_k, kBlockN, at.inner % n_blocks);
  const int warp_row = threadIdx.x / kWarpSize * kWarpRows;

  start_load<kBlockM, kWidth>(smem_q, at.q(rows), log);
  start_load<kBlockN, kWidth>(smem_k, at.k(keys), log);
  commit_copies();
  zero_columns<kBlockM, kWidth>(smem_q, p.head_dim);
  zero_columns<kBlockN, kWidth>(smem_k, p.head_dim);
  zero_rows<kBlockM, kWidth>(smem_q, size_of(rows), p.head_dim);
  zero_rows<kBlockN, kWidth>(smem_k, size_of(keys), p.head_dim);
  wait_for_copies<0>();
  __syncthreads();

  Accumulator acc_s[kM][kN];
  clear(acc_s);
  add_product_transposed<T, kWidth>(acc_s, lane_of_a<kWidth>(smem_q, warp_row), lane_of_b_transposed<kWidth>(smem_k));
  log.compute(Op::scores, at.head, rows, keys, p.head_dim);
  const bool masked = !all_kept(p.mask, rows, keys);
  if (masked) log.compute(Op::mask, at.head, rows, keys);

  __syncthreads();  // all have read Q and K
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int half = 0; half < kAccumulatorRows; ++half) {
      const int row = warp_row + accumulator_row() + 16 * m + 8 * half;
      const Range kept = kept_keys(p.mask, rows.begin + row);
      const auto score = [&](float x, int key) {
        return !masked || (key >= kept.begin && key < kept.end) ? x * p.softmax_scale : -INFINITY;
      };
#pragma unroll
      for (int n = 0; n < kN; ++n) {
        const int key = keys.begin + accumulator_col() + 8 * n;
        *reinterpret_cast<unsigned*>(smem_s + Swizzle<kBlockN>::chunk(row, n) + accumulator_col()) =
            rounded_pair<T>(score(acc_s[m][n].x[2 * half], key), score(acc_s[m][n].x[2 * half + 1], key + 1));
      }
    }
  __syncthreads();
  store_rounded<kBlockN>(smem_s, at.scores(rows, keys), log);
#endif
}

/// Pass 3: O = P V. One CTA a query tile; P and V come in tiles of 64 keys, the next while this one is multiplied.
template <class T, int kWidth, class Observer>
__global__ void __maxnreg__(bound<Observer>(weighted_sum_tensor_registers(kWidth)))
    three_pass_tensor_weighted_sum(KernelParams p, Observer log) {
#if __CUDA_ARCH__ >= 800
  constexpr int kBlockM = mma_block_m(kWidth), kBlockN = kThreePassTensorKeys;
  constexpr int kStage = three_pass_tensor_stage(kBlockM, kBlockN, kWidth);  // elements
  static_assert(kThreePassTensorStages == 2);                                // one under way, one in use
  constexpr int kWarpRows = kBlockM / kMmaWarps, kM = kWarpRows / 16, kN = kWidth / 8;
  extern __shared__ __align__(kSmemAlignment) unsigned char shared_bytes[];
  T* const smem = reinterpret_cast<T*>(shared_bytes);
  const auto smem_p = [&](int stage) { return smem + stage * kStage; };                      // [kBlockM][kBlockN]
  const auto smem_v = [&](int stage) { return smem + stage * kStage + kBlockM * kBlockN; };  // [kBlockN][kWidth]

  const CtaPlace<T> at(p);
  const Range rows = rows_of_tile(p.mask.seqlen_q, kBlockM, at.inner);
  const int n_blocks = num_tiles(p.mask.seqlen_k, kBlockN), warp_row = threadIdx.x / kWarpSize * kWarpRows;
  const auto start_block = [&](int n_block) {
    if (n_block < n_blocks) {
      const Range keys = rows_of_tile(p.mask.seqlen_k, kBlockN, n_block);
      T* const weights = smem_p(n_block % 2);
      T* const values = smem_v(n_block % 2);
      start_load<kBlockM, kBlockN, false>(weights, at.probabilities(rows, keys), log);
      start_load<kBlockN, kWidth>(values, at.v(keys), log);
      zero_columns<kBlockM, kBlockN>(weights, size_of(keys));
      zero_rows<kBlockM, kBlockN>(weights, size_of(rows), size_of(keys));
      zero_columns<kBlockN, kWidth>(values, p.head_dim);
      zero_rows<kBlockN, kWidth>(values, size_of(keys), p.head_dim);
    }
    commit_copies();  // an empty group where nothing is left: the wait below counts groups
  };

  Accumulator acc_o[kM][kN];
  clear(acc_o);
  log.compute(Op::clear_state, at.head, rows, at.dims());
  start_block(0);
#pragma unroll 1
  for (int n_block = 0; n_block < n_blocks; ++n_block) {
    start_block(n_block + 1);
    wait_for_copies<1>();
    __syncthreads();
    const unsigned lane_of_p = lane_of_a<kBlockN>(smem_p(n_block % 2), warp_row),
                   lane_of_v = lane_of_b<kWidth>(smem_v(n_block % 2));
#pragma unroll
    for (int k = 0; k < kBlockN; k += 16) {
      using S = Swizzle<kBlockN>;
      FragmentA a[kM];
#pragma unroll
      for (int m = 0; m < kM; ++m) a[m] = load_a(S::step(lane_of_p, k / kChunk) + 16 * m * S::kRowBytes);
      add_product<T>(acc_o, a, lane_of_v, k);
    }
    log.compute(Op::weighted_sum, at.head, rows, at.dims(), size_of(rows_of_tile(p.mask.seqlen_k, kBlockN, n_block)));
    __syncthreads();  // all have read this stage
  }

  wait_for_copies<0>();
  T* const smem_o = smem;  // [kBlockM][kWidth], swizzled
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int half = 0; half < kAccumulatorRows; ++half)
#pragma unroll
      for (int n = 0; n < kN; ++n) {
        const int row = warp_row + accumulator_row() + 16 * m + 8 * half;
        *reinterpret_cast<unsigned*>(smem_o + Swizzle<kWidth>::chunk(row, n) + accumulator_col()) =
            rounded_pair<T>(acc_o[m][n].x[2 * half], acc_o[m][n].x[2 * half + 1]);
      }
  __syncthreads();
  store_rounded<kWidth>(smem_o, at.o(rows), log);
#endif
}

template <class T, int kWidth, class Observer>
const void* pass(int kernel) {
  switch (kernel) {
    case 0: return reinterpret_cast<const void*>(&three_pass_tensor_scores<T, kWidth, Observer>);
    case 1: return reinterpret_cast<const void*>(&three_pass_softmax<T, mma_block_m(kWidth), Observer>);
    case 2: return reinterpret_cast<const void*>(&three_pass_tensor_weighted_sum<T, kWidth, Observer>);
    default: return nullptr;
  }
}

template <class T>
const void* by_width(int kernel, int head_dim) {
  switch (fma_width(head_dim)) {
    case 32: return pass<T, 32, NoObserver>(kernel);
    case 64: return pass<T, 64, NoObserver>(kernel);
    case 128: return pass<T, 128, NoObserver>(kernel);
    case 256: return pass<T, 256, NoObserver>(kernel);
    default: return nullptr;
  }
}

}  // namespace

const void* three_pass_tensor_kernel(int kernel, DType dtype, int head_dim, bool logged) {
  if (logged)
    return dtype == DType::bf16 && head_dim > 32 && head_dim <= 64 ? pass<__nv_bfloat16, 64, OpLog>(kernel) : nullptr;
  if (dtype == DType::fp16) return by_width<__half>(kernel, head_dim);
  if (dtype == DType::bf16) return by_width<__nv_bfloat16>(kernel, head_dim);
  return nullptr;
}

}  // namespace flashscope::kernels
