// Rung 05, flash_v2: query tile outside, K and V streamed past it (FlashAttention-2, arXiv 2307.08691, Algorithm 1).
//
//   flashscope measure --algorithm flash_v2
//
// Over rung 04 (flash_v1) this adds one exchange of loops. There a CTA owned a head, kept a key tile and had every
// query tile come in with its O, l, m and go back. Here a CTA owns one query tile: acc, m and l stay in registers until
// the last key tile has passed, O is divided once and written once, and there are Tr times as many CTAs to fill the
// GPU. Key tiles that the mask empties are not even loaded: those above a diagonal, and in instances of their own
// (05_flash_v2_sparse.cu) those of other packed sequences and of blocks that are not kept.
//
// What it still leaves undone: it multiplies on the FMA units (rung 06 goes to the tensor cores), and while a tile is
// on its way the CTA waits; only the other CTAs of the SM have something to do meanwhile (rung 06: cp.async).
#include "kernels/common/instances.cuh"
#include "kernels/common/tile_walk.cuh"
#include "kernels/forward/rungs.h"

namespace flashscope::kernels {
namespace {

template <class T, int kWidth, class Params, class Observer>
__global__ void __maxnreg__(bound<Observer>(
    flash_v2_registers(kWidth, std::is_same_v<T, __nv_bfloat16>, std::is_same_v<T, __half>, Params::kIsSparse)))
    flash_v2(Params p, Observer log) {
  using Tile = FmaTile<kWidth>;
  constexpr int kBlockM = Tile::kBlockM, kBlockN = Tile::kBlockN, kPitch = Tile::kPitch, kSPitch = Tile::kScoresPitch;
  constexpr SmemLayout kLayout = flash_v2_smem(kBlockM, kBlockN, kWidth);
  extern __shared__ float4 shared[];
  float* const smem = reinterpret_cast<float*>(shared);
  float* const smem_q = smem + kLayout.a;   // [kBlockM][kPitch], at the end O
  float* const smem_kv = smem + kLayout.b;  // [kBlockN][kPitch], K and V in turn
  float* const smem_s = smem + kLayout.s;   // [kBlockM][kSPitch], at the end LSE

  // 1. Which query tile of which head is ours, and which key tiles does it see?
  const CtaPlace<T> at(p);
  const int head = at.head, m_block = at.inner;
  const Range rows = rows_of_tile(p.mask.seqlen_q, kBlockM, m_block), dims = at.dims();
  const int num_rows = rows.end - rows.begin;
  TileWalk n_blocks(p.mask, kBlockM, kBlockN, m_block, smem + kLayout.floats);

  // 2. Q comes once and stays.
  load_tile(smem_q, kPitch, at.q(rows), log);
  zero_rest<kBlockM, kWidth>(smem_q, num_rows, p.head_dim);

  float acc_o[Tile::kRows][Tile::kCols];
  float row_max[Tile::kRows];
  float row_sum[Tile::kRows];  // of this thread's keys; the lanes of a row are added up at the end
  clear(acc_o);
#pragma unroll
  for (int r = 0; r < Tile::kRows; ++r) row_max[r] = -INFINITY, row_sum[r] = 0;
  log.compute(Op::clear_state, head, rows, dims);

  for (int n_block = n_blocks.first(); n_block < n_blocks.end(); n_block = n_blocks.next(n_block)) {
    const Range keys = rows_of_tile(p.mask.seqlen_k, kBlockN, n_block);
    const int num_keys = keys.end - keys.begin;

    // 3. S = softmax_scale · Q Kᵀ, in registers.
    load_tile(smem_kv, kPitch, at.k(keys), log);
    zero_rest<kBlockN, kWidth>(smem_kv, num_keys, p.head_dim);
    __syncthreads();
    float acc_s[Tile::kRows][Tile::kKeys];
    clear(acc_s);
    add_product_transposed(acc_s, smem_q, kPitch, smem_kv, kPitch, round_up(p.head_dim, 4));
    log.compute(Op::scores, head, rows, keys, p.head_dim);
    const bool masked = !n_blocks.is_whole(n_block, p.mask, rows, keys);
    scale_and_mask(acc_s, p.softmax_scale, p.mask, rows.begin, keys.begin, masked || num_keys < kBlockN);
    if (masked) log.compute(Op::mask, head, rows, keys);
    __syncthreads();  // all have read K: V may take its place

    load_tile(smem_kv, kPitch, at.v(keys), log);
    zero_rest<kBlockN, kWidth>(smem_kv, num_keys, p.head_dim);

    // 4. Online softmax: what has been summed so far was relative to the old maximum; multiply it down to the new one.
    log.compute(Op::online_softmax, head, rows, keys);
#pragma unroll
    for (int r = 0; r < Tile::kRows; ++r) {
      float tile_max = acc_s[r][0];
#pragma unroll
      for (int c = 1; c < Tile::kKeys; ++c) tile_max = fmaxf(tile_max, acc_s[r][c]);
      const float new_max = fmaxf(row_max[r], row_maximum(tile_max));
      const float base = finite_or_zero(new_max);
      const float rescale = exp_of(row_max[r] - base);  // before row_max is overwritten
      row_max[r] = new_max;
      row_sum[r] *= rescale;
#pragma unroll
      for (int c = 0; c < Tile::kKeys; ++c) {
        acc_s[r][c] = exp_of(acc_s[r][c] - base);
        row_sum[r] += acc_s[r][c];
      }
#pragma unroll
      for (int c = 0; c < Tile::kCols; ++c) acc_o[r][c] *= rescale;
    }
    stage_scores(smem_s, kSPitch, acc_s);
    __syncthreads();

    // 5. acc_o += P V. The weights go through shared memory, because a thread needs those of its whole row.
    add_product<kBlockN>(acc_o, smem_s, kSPitch, smem_kv, kPitch);
    log.compute(Op::weighted_sum, head, rows, dims, num_keys);
    __syncthreads();  // all have read V and the weights
  }

  // 6. One division, one write.
  __syncthreads();  // Q has arrived, also where no key tile was visited
#pragma unroll
  for (int r = 0; r < Tile::kRows; ++r) {
    const float sum = row_total(row_sum[r]);
    const float inverse = sum > 0 ? 1 / sum : 0;  // a row that sees no key: O = 0, LSE = -inf
#pragma unroll
    for (int c = 0; c < Tile::kCols; ++c) acc_o[r][c] *= inverse;
    if (thread_col() == 0) smem_s[row_of(r)] = sum > 0 ? row_max[r] + logf(sum) : -INFINITY;
  }
  log.compute(Op::normalize, head, rows, dims);
  log.compute(Op::log_sum_exp, head, rows, {0, 1});
  stage_output(smem_q, kPitch, acc_o);
  __syncthreads();
  store_tile(smem_q, kPitch, at.o(rows), log);
  store_tile(smem_s, 1, at.lse(rows), log);
}

using SP = SparseParams<KernelParams>; using N = NoObserver;
const void* f1() { return reinterpret_cast<const void*>(&flash_v2<float, 256, SP, N>); }
const void* f2() { return reinterpret_cast<const void*>(&flash_v2<__half, 256, SP, N>); }
}
const void* g(int i) { return i == 0 ? f1() : f2(); }
}
