// Rung 05 backward, flash_v2: S and P recomputed tile by tile from Q, K and the LSE that the forward pass has left.
//
//   flashscope measure --pass backward --algorithm flash_v2
//
// FlashAttention-2 (arXiv 2307.08691, section 3.2) gives each CTA a key tile; dK and dV stay in registers, and all CTAs
// add their share to dQ atomically, in whatever order they come. Here dQ has a kernel of its own, with the query tile
// outside as in the forward pass: seven products instead of five, and in return no atomics and the same bits in every
// run. D = rowsum(dO ∘ O) comes first, in a kernel that reads O and dO once: it spares both others the O.
//
// Packed sequences and block masks have instances of their own (05_flash_v2_sparse_backward.cu).
//
// Admitted: recomputing S and dP a second time costs two products of seven. And like the forward rung 05 it multiplies
// on the FMA units and waits for its loads.
#include "kernels/backward/place.cuh"
#include "kernels/backward/backward_tile.cuh"
#include "kernels/backward/rungs.h"
#include "kernels/common/instances.cuh"
#include "kernels/common/tile_walk.cuh"

namespace flashscope::kernels {
namespace {

/// D of one query tile, a row a thread.
template <class T, int kWidth, class Observer>
__global__ void __maxnreg__(bound<Observer>(kRowDotRegisters)) flash_v2_backward_row_dot(BackwardParams p, Observer log) {
  using Tile = BackwardTile<kWidth>;
  constexpr RowDotSmem kLayout = row_dot_smem(Tile::kBlockM, kWidth);
  extern __shared__ float4 shared[];
  float* const smem = reinterpret_cast<float*>(shared);
  float* const smem_o = smem + kLayout.o;      // [kBlockM][kPitch]
  float* const smem_do = smem + kLayout.d_o;   // [kBlockM][kPitch]
  float* const smem_d = smem + kLayout.d;      // [kBlockM]

  const BackwardPlace<T> at(p);
  const Range rows = rows_of_tile(p.mask.seqlen_q, Tile::kBlockM, at.inner);
  const int depth = round_up(p.head_dim, 4);
  load_tile(smem_o, Tile::kPitch, at.o(rows), log);
  load_tile(smem_do, Tile::kPitch, at.d_o(rows), log);
  zero_rest<Tile::kBlockM, kWidth>(smem_o, size_of(rows), p.head_dim);
  zero_rest<Tile::kBlockM, kWidth>(smem_do, size_of(rows), p.head_dim);
  __syncthreads();
  if (const int row = threadIdx.x; row < size_of(rows)) smem_d[row] = row_dot<Tile::kPitch>(smem_do, smem_o, row, depth);
  log.compute(Op::row_dot, at.head, rows, at.dims(), 0, Tensor::O);
  __syncthreads();
  store_tile(smem_d, 1, at.d(rows), log);
}

/// dK and dV of one key tile of one KV head: query tiles come by, head after head of the group.
template <class T, int kWidth, class Params, class Observer>
__global__ void __maxnreg__(bound<Observer>(kKeyGradientsRegisters)) flash_v2_backward_dk_dv(Params p, Observer log) {
  using Tile = BackwardTile<kWidth>;
  constexpr int kBlockM = Tile::kBlockM, kBlockN = Tile::kBlockN, kPitch = Tile::kPitch, kSPitch = smem_pitch(kBlockM);
  constexpr BackwardSmem kLayout = flash_v2_backward_smem(kBlockM, kBlockN, kWidth, true);
  extern __shared__ float4 shared[];
  float* const smem = reinterpret_cast<float*>(shared);
  float* const smem_q = smem + kLayout.q;      // [kBlockM][kPitch]
  float* const smem_do = smem + kLayout.d_o;   // [kBlockM][kPitch]
  float* const smem_k = smem + kLayout.k;      // [kBlockN][kPitch], at the end dK
  float* const smem_v = smem + kLayout.v;      // [kBlockN][kPitch], at the end dV
  float* const smem_s = smem + kLayout.s;      // [kBlockN][kSPitch], Pᵀ, then dSᵀ
  float* const smem_lse = smem + kLayout.lse;  // [kBlockM]
  float* const smem_d = smem + kLayout.d;      // [kBlockM]

  // 1. Which key tile of which KV head is ours, and which query tiles see it? The mask with its axes exchanged.
  BackwardPlace<T> at = BackwardPlace<T>::of_keys(p);
  const Range keys = rows_of_tile(p.mask.seqlen_k, kBlockN, at.inner), dims = at.dims();
  const int num_keys = size_of(keys), depth = round_up(p.head_dim, 4);
  TileWalk m_blocks(transposed(p.mask), kBlockN, kBlockM, at.inner, smem + kLayout.floats);

  // 2. K and V come once and stay.
  if (m_blocks.first() < m_blocks.end()) {
    load_tile(smem_k, kPitch, at.k(keys), log);
    load_tile(smem_v, kPitch, at.v(keys), log);
    zero_rest<kBlockN, kWidth>(smem_k, num_keys, p.head_dim);
    zero_rest<kBlockN, kWidth>(smem_v, num_keys, p.head_dim);
  }
  float acc_dk[Tile::kKeyRows][Tile::kCols], acc_dv[Tile::kKeyRows][Tile::kCols];
  clear(acc_dk);
  clear(acc_dv);
  log.compute(Op::clear_gradient, at.head, keys, dims, 0, Tensor::dK);
  log.compute(Op::clear_gradient, at.head, keys, dims, 0, Tensor::dV);

  for (const int end = at.head + at.group(); at.head < end; ++at.head)
    for (int m_block = m_blocks.first(); m_block < m_blocks.end(); m_block = m_blocks.next(m_block)) {
      const Range rows = rows_of_tile(p.mask.seqlen_q, kBlockM, m_block);
      const int num_rows = size_of(rows);
      load_tile(smem_q, kPitch, at.q(rows), log);
      load_tile(smem_do, kPitch, at.d_o(rows), log);
      load_tile(smem_lse, 1, at.lse(rows), log);
      load_tile(smem_d, 1, at.d(rows), log);
      blank_rest<kBlockM>(smem_lse, smem_d, num_rows);
      zero_rest<kBlockM, kWidth>(smem_q, num_rows, p.head_dim);
      zero_rest<kBlockM, kWidth>(smem_do, num_rows, p.head_dim);
      __syncthreads();

      // 3. P = exp(softmax_scale · Q Kᵀ - LSE).
      float acc_s[Tile::kRows][Tile::kKeys];
      clear(acc_s);
      add_product_transposed(acc_s, smem_q, kPitch, smem_k, kPitch, depth);
      log.compute(Op::scores, at.head, rows, keys, p.head_dim);
      const bool masked = !m_blocks.is_whole(m_block, p.mask, rows, keys);
      scale_and_mask(acc_s, p.softmax_scale, p.mask, rows.begin, keys.begin, masked || num_keys < kBlockN);
      if (masked) log.compute(Op::mask, at.head, rows, keys);
      scores_to_probabilities(acc_s, smem_lse);
      log.compute(Op::probabilities, at.head, rows, keys);
      stage_scores_transposed(smem_s, kSPitch, acc_s);
      __syncthreads();

      // 4. dV += Pᵀ dO.
      add_product<kBlockM>(acc_dv, smem_s, kSPitch, smem_do, kPitch);
      log.compute(Op::gradient_sum, at.head, keys, dims, num_rows, Tensor::dV);

      // 5. dP = dO Vᵀ, dS = P ∘ (dP - D).
      float acc_dp[Tile::kRows][Tile::kKeys];
      clear(acc_dp);
      add_product_transposed(acc_dp, smem_do, kPitch, smem_v, kPitch, depth);
      log.compute(Op::d_probabilities, at.head, rows, keys, p.head_dim);
      to_score_gradients(acc_dp, acc_s, smem_d);
      log.compute(Op::d_scores, at.head, rows, keys);
      __syncthreads();  // all have read P: dS may take its place
      stage_scores_transposed(smem_s, kSPitch, acc_dp);
      __syncthreads();

      // 6. dK += dSᵀ Q; the scale comes at the end.
      add_product<kBlockM>(acc_dk, smem_s, kSPitch, smem_q, kPitch);
      log.compute(Op::gradient_sum, at.head, keys, dims, num_rows, Tensor::dK);
      __syncthreads();  // all have read Q, dO and dS
    }

  // 7. One write each. A key that no query sees has gradients 0.
  scale(acc_dk, p.softmax_scale);
  stage_output(smem_k, kPitch, acc_dk);
  stage_output(smem_v, kPitch, acc_dv);
  __syncthreads();
  store_tile(smem_k, kPitch, at.d_k(keys), log);
  store_tile(smem_v, kPitch, at.d_v(keys), log);
}

/// dQ of one query tile: K and V stream by, as in the forward pass.
template <class T, int kWidth, class Params, class Observer>
__global__ void __maxnreg__(bound<Observer>(query_gradient_registers(kWidth, Params::kIsSparse)))
    flash_v2_backward_dq(Params p, Observer log) {
  using Tile = BackwardTile<kWidth>;
  constexpr int kBlockM = Tile::kBlockM, kBlockN = Tile::kBlockN, kPitch = Tile::kPitch, kSPitch = smem_pitch(kBlockN);
  constexpr BackwardSmem kLayout = flash_v2_backward_smem(kBlockM, kBlockN, kWidth, false);
  static_assert(kBlockM <= kBlockN, "dQ leaves through the place of K");
  extern __shared__ float4 shared[];
  float* const smem = reinterpret_cast<float*>(shared);
  float* const smem_q = smem + kLayout.q;      // [kBlockM][kPitch]
  float* const smem_do = smem + kLayout.d_o;   // [kBlockM][kPitch]
  float* const smem_k = smem + kLayout.k;      // [kBlockN][kPitch], at the end dQ
  float* const smem_v = smem + kLayout.v;      // [kBlockN][kPitch]
  float* const smem_s = smem + kLayout.s;      // [kBlockM][kSPitch], dS
  float* const smem_lse = smem + kLayout.lse;  // [kBlockM]
  float* const smem_d = smem + kLayout.d;      // [kBlockM]

  // 1. Q, dO and the statistics of our rows come once and stay.
  const BackwardPlace<T> at(p);
  const int head = at.head, depth = round_up(p.head_dim, 4);
  const Range rows = rows_of_tile(p.mask.seqlen_q, kBlockM, at.inner), dims = at.dims();
  TileWalk n_blocks(p.mask, kBlockM, kBlockN, at.inner, smem + kLayout.floats);
  load_tile(smem_q, kPitch, at.q(rows), log);
  load_tile(smem_do, kPitch, at.d_o(rows), log);
  load_tile(smem_lse, 1, at.lse(rows), log);
  load_tile(smem_d, 1, at.d(rows), log);
  blank_rest<kBlockM>(smem_lse, smem_d, size_of(rows));
  zero_rest<kBlockM, kWidth>(smem_q, size_of(rows), p.head_dim);
  zero_rest<kBlockM, kWidth>(smem_do, size_of(rows), p.head_dim);
  float acc_dq[Tile::kRows][Tile::kCols];
  clear(acc_dq);
  log.compute(Op::clear_gradient, head, rows, dims, 0, Tensor::dQ);

  for (int n_block = n_blocks.first(); n_block < n_blocks.end(); n_block = n_blocks.next(n_block)) {
    const Range keys = rows_of_tile(p.mask.seqlen_k, kBlockN, n_block);
    const int num_keys = size_of(keys);
    load_tile(smem_k, kPitch, at.k(keys), log);
    load_tile(smem_v, kPitch, at.v(keys), log);
    zero_rest<kBlockN, kWidth>(smem_k, num_keys, p.head_dim);
    zero_rest<kBlockN, kWidth>(smem_v, num_keys, p.head_dim);
    __syncthreads();

    // 2. P = exp(softmax_scale · Q Kᵀ - LSE), the second time; it never leaves the registers.
    float acc_s[Tile::kRows][Tile::kKeys];
    clear(acc_s);
    add_product_transposed(acc_s, smem_q, kPitch, smem_k, kPitch, depth);
    log.compute(Op::scores, head, rows, keys, p.head_dim);
    const bool masked = !n_blocks.is_whole(n_block, p.mask, rows, keys);
    scale_and_mask(acc_s, p.softmax_scale, p.mask, rows.begin, keys.begin, masked || num_keys < kBlockN);
    if (masked) log.compute(Op::mask, head, rows, keys);
    scores_to_probabilities(acc_s, smem_lse);
    log.compute(Op::probabilities, head, rows, keys);

    // 3. dP = dO Vᵀ, dS = P ∘ (dP - D).
    float acc_dp[Tile::kRows][Tile::kKeys];
    clear(acc_dp);
    add_product_transposed(acc_dp, smem_do, kPitch, smem_v, kPitch, depth);
    log.compute(Op::d_probabilities, head, rows, keys, p.head_dim);
    to_score_gradients(acc_dp, acc_s, smem_d);
    log.compute(Op::d_scores, head, rows, keys);
    stage_scores(smem_s, kSPitch, acc_dp);
    __syncthreads();

    // 4. dQ += dS K; the scale comes at the end.
    add_product<kBlockN>(acc_dq, smem_s, kSPitch, smem_k, kPitch);
    log.compute(Op::gradient_sum, head, rows, dims, num_keys, Tensor::dQ);
    __syncthreads();  // all have read K and dS
  }

  // 5. One write. K's place is free also where no key tile was visited; Q may still be on its way then.
  scale(acc_dq, p.softmax_scale);
  stage_output(smem_k, kPitch, acc_dq);
  __syncthreads();
  store_tile(smem_k, kPitch, at.d_q(rows), log);
}

struct RowDot {
  template <class T, int kWidth, class Observer>
  static const void* function() {
    return reinterpret_cast<const void*>(&flash_v2_backward_row_dot<T, kWidth, Observer>);
  }
};
template <class Params>
struct KeyGradients {
  template <class T, int kWidth, class Observer>
  static const void* function() {
    return reinterpret_cast<const void*>(&flash_v2_backward_dk_dv<T, kWidth, Params, Observer>);
  }
};
template <class Params>
struct QueryGradient {
  template <class T, int kWidth, class Observer>
  static const void* function() {
    return reinterpret_cast<const void*>(&flash_v2_backward_dq<T, kWidth, Params, Observer>);
  }
};

}  // namespace

#ifdef FLASHSCOPE_SPARSE_INSTANCES
const void* flash_v2_sparse_backward_kernel(int kernel, DType dtype, int head_dim, bool logged) {
  using Params = SparseParams<BackwardParams>;
  switch (kernel) {
    case 0: return flash_v2_backward_kernel(kernel, dtype, head_dim, logged);  // D does not know of masks
    case 1: return instance<KeyGradients<Params>>(dtype, head_dim, logged);
    default: return instance<QueryGradient<Params>>(dtype, head_dim, logged);
  }
}
#else
const void* flash_v2_backward_kernel(int kernel, DType dtype, int head_dim, bool logged) {
  switch (kernel) {
    case 0: return instance<RowDot>(dtype, head_dim, logged);
    case 1: return instance<KeyGradients<BackwardParams>>(dtype, head_dim, logged);
    default: return instance<QueryGradient<BackwardParams>>(dtype, head_dim, logged);
  }
}
#endif

}  // namespace flashscope::kernels
