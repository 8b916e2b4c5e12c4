// Rung 02, three_pass: S = QKᵀ, P = softmax(S), O = PV as three kernels over shared-memory tiles.
//
//   flashscope measure --algorithm three_pass
//
// Over rung 01 (three_pass_naive) this adds the tile: a CTA brings a block of each operand on chip once and every
// element of it serves a whole row or column of the result, so the products ask global memory Br or Bc times less
// often. What no tile can help: S and P, N × N each, are written and read back in full, and that is most of the traffic
// at long sequences. Rungs 04 and 05 never write them.
//
// As eager attention does, it computes all pairs: under a mask scores become -inf, no tile is skipped, and only pass 1
// knows of it. Rung 03 puts the same three passes on the tensor cores.
#include "kernels/common/instances.cuh"
#include "kernels/common/row_softmax.cuh"
#include "kernels/forward/rungs.h"

namespace flashscope::kernels {
namespace {

/// Pass 1: S = softmax_scale · Q Kᵀ, masked, in the storage dtype. One CTA a tile of S.
template <class T, int kWidth, class Params, class Observer>
__global__ void __maxnreg__(bound<Observer>(kScoresRegisters)) three_pass_scores(Params p, Observer log) {
  using Tile = FmaTile<kWidth>;
  constexpr SmemLayout kLayout = three_pass_scores_smem(Tile::kBlockM, Tile::kBlockN, kWidth);
  extern __shared__ float4 shared[];
  float* const smem_q = reinterpret_cast<float*>(shared) + kLayout.a;  // [kBlockM][kPitch]
  float* const smem_k = reinterpret_cast<float*>(shared) + kLayout.b;  // [kBlockN][kPitch]
  float* const smem_s = reinterpret_cast<float*>(shared) + kLayout.s;  // [kBlockM][kScoresPitch], over Q and K

  const CtaPlace<T> at(p);
  const int n_blocks = num_tiles(p.mask.seqlen_k, Tile::kBlockN);
  const Range rows = rows_of_tile(p.mask.seqlen_q, Tile::kBlockM, at.inner / n_blocks);
  const Range keys = rows_of_tile(p.mask.seqlen_k, Tile::kBlockN, at.inner % n_blocks);

  load_tile(smem_q, Tile::kPitch, at.q(rows), log);
  load_tile(smem_k, Tile::kPitch, at.k(keys), log);
  zero_rest<Tile::kBlockM, kWidth>(smem_q, size_of(rows), p.head_dim);
  zero_rest<Tile::kBlockN, kWidth>(smem_k, size_of(keys), p.head_dim);
  __syncthreads();

  float acc_s[Tile::kRows][Tile::kKeys];
  clear(acc_s);
  add_product_transposed(acc_s, smem_q, Tile::kPitch, smem_k, Tile::kPitch, round_up(p.head_dim, 4));
  log.compute(Op::scores, at.head, rows, keys, p.head_dim);
  const bool masked = !all_kept(p.mask, rows, keys);
  scale_and_mask(acc_s, p.softmax_scale, p.mask, rows.begin, keys.begin, masked);
  if (masked) log.compute(Op::mask, at.head, rows, keys);

  __syncthreads();  // all have read Q and K
  stage_scores(smem_s, Tile::kScoresPitch, acc_s);
  __syncthreads();
  store_tile(smem_s, Tile::kScoresPitch, at.scores(rows, keys), log);
}

// Pass 2: P = softmax(S), whole rows: three_pass_softmax in row_softmax.cuh.

/// Pass 3: O = P V. One CTA a query tile, its sum in registers while the key tiles pass.
template <class T, int kWidth, class Observer>
__global__ void __maxnreg__(bound<Observer>(weighted_sum_registers(kWidth, std::is_same_v<T, __nv_bfloat16>)))
    three_pass_weighted_sum(KernelParams p, Observer log) {
  using Tile = FmaTile<kWidth>;
  constexpr SmemLayout kLayout = three_pass_weighted_sum_smem(Tile::kBlockM, Tile::kBlockN, kWidth);
  extern __shared__ float4 shared[];
  float* const smem_p = reinterpret_cast<float*>(shared) + kLayout.a;  // [kBlockM][kScoresPitch]
  float* const smem_v = reinterpret_cast<float*>(shared) + kLayout.b;  // [kBlockN][kPitch]
  float* const smem_o = reinterpret_cast<float*>(shared) + kLayout.s;  // [kBlockM][kPitch], over P and V

  const CtaPlace<T> at(p);
  const Range rows = rows_of_tile(p.mask.seqlen_q, Tile::kBlockM, at.inner);
  float acc_o[Tile::kRows][Tile::kCols];
  clear(acc_o);
  log.compute(Op::clear_state, at.head, rows, at.dims());
  for (int n_block = 0; n_block < num_tiles(p.mask.seqlen_k, Tile::kBlockN); ++n_block) {
    const Range keys = rows_of_tile(p.mask.seqlen_k, Tile::kBlockN, n_block);
    load_tile(smem_p, Tile::kScoresPitch, at.probabilities(rows, keys), log);
    load_tile(smem_v, Tile::kPitch, at.v(keys), log);
    zero_rest<Tile::kBlockM, Tile::kBlockN>(smem_p, size_of(rows), size_of(keys));
    zero_rest<Tile::kBlockN, kWidth>(smem_v, size_of(keys), p.head_dim);
    __syncthreads();
    add_product<Tile::kBlockN>(acc_o, smem_p, Tile::kScoresPitch, smem_v, Tile::kPitch);
    log.compute(Op::weighted_sum, at.head, rows, at.dims(), size_of(keys));
    __syncthreads();  // all have read P and V
  }
  stage_output(smem_o, Tile::kPitch, acc_o);
  __syncthreads();
  store_tile(smem_o, Tile::kPitch, at.o(rows), log);
}

template <class Params>
struct Scores {
  template <class T, int kWidth, class Observer>
  static const void* function() {
    return reinterpret_cast<const void*>(&three_pass_scores<T, kWidth, Params, Observer>);
  }
};
struct Softmax {
  template <class T, int kWidth, class Observer>
  static const void* function() {
    return reinterpret_cast<const void*>(&three_pass_softmax<T, Observer>);
  }
};
struct WeightedSum {
  template <class T, int kWidth, class Observer>
  static const void* function() {
    return reinterpret_cast<const void*>(&three_pass_weighted_sum<T, kWidth, Observer>);
  }
};

}  // namespace

const void* three_pass_kernel(int kernel, DType dtype, int head_dim, bool logged) {
  switch (kernel) {
    case 0: return instance<Scores<KernelParams>>(dtype, head_dim, logged);
    case 1: return instance<Softmax>(dtype, head_dim, logged);
    case 2: return instance<WeightedSum>(dtype, head_dim, logged);
    default: return nullptr;
  }
}

const void* three_pass_sparse_kernel(int kernel, DType dtype, int head_dim, bool logged) {
  return kernel == 0 ? instance<Scores<SparseParams<KernelParams>>>(dtype, head_dim, logged)
                     : three_pass_kernel(kernel, dtype, head_dim, logged);
}

}  // namespace flashscope::kernels
