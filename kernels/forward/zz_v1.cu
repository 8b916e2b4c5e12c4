// Rung 04, flash_v1: K and V outside, Q inside (FlashAttention, arXiv 2205.14135, Algorithm 1).
//
//   flashscope measure --algorithm flash_v1
//
// Over rung 02 (three_pass) this adds the online softmax: the scores of a tile live and die in shared memory, S and P
// are never written. In the paper's order a CTA holds a key tile and lets every query tile come in with what has been
// summed for it so far: its O, and of each row the maximum m and the sum l, all of which go back to global memory.
//
// Admitted: with one CTA a head it is slow (16 heads fill 16 of 132 SMs), and O is rounded to the storage dtype once
// per key tile, so its error grows like √Tc. Rung 05 exchanges the loops and loses both faults.
#include "kernels/common/instances.cuh"
#include "kernels/common/tile_walk.cuh"
#include "kernels/forward/rungs.h"

namespace flashscope::kernels {
namespace {

template <class T, int kWidth, class Params, class Observer>
__global__ void
    __maxnreg__(bound<Observer>(flash_v1_registers(kWidth, std::is_same_v<T, __nv_bfloat16>, Params::kIsSparse)))
    flash_v1(Params p, Observer log) {
  using Tile = FmaTile<kWidth>;
  constexpr int kBlockM = Tile::kBlockM, kBlockN = Tile::kBlockN, kPitch = Tile::kPitch, kSPitch = Tile::kScoresPitch;
  constexpr SmemLayout kLayout = flash_v1_smem(kBlockM, kBlockN, kWidth);
  extern __shared__ float4 shared[];
  float* const smem = reinterpret_cast<float*>(shared);
  float* const smem_q = smem + kLayout.a;  // [kBlockM][kPitch]
  float* const smem_k = smem + kLayout.b;  // [kBlockN][kPitch]
  float* const smem_v = smem + kLayout.c;  // [kBlockN][kPitch]
  float* const smem_s = smem + kLayout.s;  // [kBlockM][kSPitch], the weights
  float* const smem_o = smem + kLayout.s;  // [kBlockM][kPitch], in the same place: O before the weights and after them
  float* const smem_m = smem + kLayout.m;  // [kBlockM]
  float* const smem_l = smem + kLayout.l;  // [kBlockM]

  const CtaPlace<T> at(p);
  const int head = at.head;
  const Range dims = at.dims();
  const int m_blocks = num_tiles(p.mask.seqlen_q, kBlockM), n_blocks = num_tiles(p.mask.seqlen_k, kBlockN);
  const auto rows_of_block = [&](int m_block) { return rows_of_tile(p.mask.seqlen_q, kBlockM, m_block); };
  const auto store_state = [&](Range rows) {
    store_tile(smem_o, kPitch, at.o(rows), log);
    store_tile(smem_l, 1, at.l(rows), log);
    store_tile(smem_m, 1, at.m(rows), log);
  };

  // 1. O = 0, l = 0, m = -inf, in global memory.
  for (int n = threadIdx.x; n < kBlockM * kPitch; n += kFmaThreads) smem_o[n] = 0;
  for (int n = threadIdx.x; n < kBlockM; n += kFmaThreads) smem_l[n] = 0, smem_m[n] = -INFINITY;
  __syncthreads();
  for (int m_block = 0; m_block < m_blocks; ++m_block) {
    const Range rows = rows_of_block(m_block);
    log.compute(Op::clear_state, head, rows, dims);
    log.compute(Op::normalize, head, rows, dims);
    store_state(rows);
  }
  __syncthreads();  // what this CTA wrote, all of its threads may read from here on

  for (int n_block = 0; n_block < n_blocks; ++n_block) {
    // 2. A key tile comes once for the whole head; seen from it, the mask has its axes exchanged.
    TileWalk visited(transposed(p.mask), kBlockN, kBlockM, n_block, smem + kLayout.floats);
    const int first = visited.first();
    if (first >= visited.end()) continue;
    const Range keys = rows_of_tile(p.mask.seqlen_k, kBlockN, n_block);
    const int num_keys = size_of(keys);
    load_tile(smem_k, kPitch, at.k(keys), log);
    load_tile(smem_v, kPitch, at.v(keys), log);
    zero_rest<kBlockN, kWidth>(smem_k, num_keys, p.head_dim);
    zero_rest<kBlockN, kWidth>(smem_v, num_keys, p.head_dim);

    for (int m_block = first; m_block < visited.end(); m_block = visited.next(m_block)) {
      // 3. A query tile comes in with its O, l, m. Times l, O is a sum again.
      const Range rows = rows_of_block(m_block);
      load_tile(smem_q, kPitch, at.q(rows), log);
      load_tile(smem_o, kPitch, at.o(rows), log);
      load_tile(smem_l, 1, at.l(rows), log);
      load_tile(smem_m, 1, at.m(rows), log);
      zero_rest<kBlockM, kWidth>(smem_q, size_of(rows), p.head_dim);
      zero_rest<kBlockM, kWidth>(smem_o, size_of(rows), p.head_dim);
      __syncthreads();
      float acc_o[Tile::kRows][Tile::kCols];
#pragma unroll
      for (int r = 0; r < Tile::kRows; ++r)
#pragma unroll
        for (int c = 0; c < Tile::kCols; ++c)
          acc_o[r][c] = smem_o[row_of(r) * kPitch + column_of<Tile::kCols>(c)] * smem_l[row_of(r)];
      log.compute(Op::undo_normalize, head, rows, dims);

      // 4. S = softmax_scale · Q Kᵀ, in registers.
      float acc_s[Tile::kRows][Tile::kKeys];
      clear(acc_s);
      add_product_transposed(acc_s, smem_q, kPitch, smem_k, kPitch, round_up(p.head_dim, 4));
      log.compute(Op::scores, head, rows, keys, p.head_dim);
      const bool masked = !visited.is_whole(m_block, p.mask, rows, keys);
      scale_and_mask(acc_s, p.softmax_scale, p.mask, rows.begin, keys.begin, masked || num_keys < kBlockN);
      if (masked) log.compute(Op::mask, head, rows, keys);
      __syncthreads();  // O has been read: the weights may take its place

      // 5. Online softmax. The sixteen lanes of a row hold equal m and l; one of them writes the new ones.
      log.compute(Op::online_softmax, head, rows, keys);
      float inverse[Tile::kRows];
#pragma unroll
      for (int r = 0; r < Tile::kRows; ++r) {
        const float old_max = smem_m[row_of(r)], old_sum = smem_l[row_of(r)];
        float tile_max = acc_s[r][0];
#pragma unroll
        for (int c = 1; c < Tile::kKeys; ++c) tile_max = fmaxf(tile_max, acc_s[r][c]);
        const float new_max = fmaxf(old_max, row_maximum(tile_max));
        const float base = finite_or_zero(new_max);
        const float rescale = exp_of(old_max - base);
        float tile_sum = 0;
#pragma unroll
        for (int c = 0; c < Tile::kKeys; ++c) tile_sum += acc_s[r][c] = exp_of(acc_s[r][c] - base);
        const float new_sum = rescale * old_sum + row_total(tile_sum);
#pragma unroll
        for (int c = 0; c < Tile::kCols; ++c) acc_o[r][c] *= rescale;
        inverse[r] = new_sum > 0 ? 1 / new_sum : 0;  // a row that has seen no key yet: O = 0
        __syncwarp();                                // all lanes of the row have read the old values
        if (thread_col() == 0) smem_m[row_of(r)] = new_max, smem_l[row_of(r)] = new_sum;
      }
      stage_scores(smem_s, kSPitch, acc_s);
      __syncthreads();

      // 6. acc_o += P V; O = acc_o / l goes back, with l and m.
      add_product<kBlockN>(acc_o, smem_s, kSPitch, smem_v, kPitch);
      log.compute(Op::weighted_sum, head, rows, dims, num_keys);
      __syncthreads();  // the weights have been read: O may take their place
#pragma unroll
      for (int r = 0; r < Tile::kRows; ++r)
#pragma unroll
        for (int c = 0; c < Tile::kCols; ++c) acc_o[r][c] *= inverse[r];
      log.compute(Op::normalize, head, rows, dims);
      stage_output(smem_o, kPitch, acc_o);
      __syncthreads();
      store_state(rows);
      __syncthreads();  // O has left; the next query tile may come, and read what was written
    }
  }

  // 7. LSE = m + log l, from the final statistics.
  for (int m_block = 0; m_block < m_blocks; ++m_block) {
    const Range rows = rows_of_block(m_block);
    load_tile(smem_l, 1, at.l(rows), log);
    load_tile(smem_m, 1, at.m(rows), log);
    __syncthreads();
    for (int n = threadIdx.x; n < size_of(rows); n += kFmaThreads)
      smem_m[n] = smem_l[n] > 0 ? smem_m[n] + logf(smem_l[n]) : -INFINITY;
    log.compute(Op::log_sum_exp, head, rows, {0, 1});
    __syncthreads();
    store_tile(smem_m, 1, at.lse(rows), log);
    __syncthreads();
  }
}

using SP = SparseParams<KernelParams>; using N = NoObserver;
const void* f1() { return reinterpret_cast<const void*>(&flash_v1<float, 64, SP, N>); }
const void* f2() { return reinterpret_cast<const void*>(&flash_v1<__half, 64, SP, N>); }
const void* f3() { return reinterpret_cast<const void*>(&flash_v1<__nv_bfloat16, 32, SP, N>); }
}
const void* g(int i) { return i == 0 ? f1() : i == 1 ? f2() : f3(); }
}
