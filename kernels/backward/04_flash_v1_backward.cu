// Rung 04 backward, flash_v1: K and V outside, Q inside (FlashAttention, arXiv 2205.14135, Algorithm 4).
//
//   flashscope measure --pass backward --algorithm flash_v1
//
// Over rung 02 backward (three_pass) this adds recomputation: S and P of a tile come from Q, K and LSE once more, dP and
// dS live and die on chip, and nothing N × N is ever written. As in the forward rung 04 a CTA holds a key tile, here with
// its dK and dV, and every query tile comes in, with the dQ that has been summed for it so far, which goes back a little
// fuller. One CTA does all of a KV head in one order: no atomics, the same bits in every run. Of the paper's algorithm two
// things differ: the forward pass has left LSE instead of l and m, and query heads that share a KV head follow one another.
//
// Admitted: with one CTA a KV head it is slow, dQ is rounded to the storage dtype once per key tile, and O comes in with
// every tile only to give D again. Rung 05 backward puts each of the three right.
#include "kernels/backward/backward_tile.cuh"
#include "kernels/backward/place.cuh"
#include "kernels/backward/rungs.h"
#include "kernels/common/instances.cuh"

namespace flashscope::kernels {
namespace {

template <class T, int kWidth, class Observer>
__global__ void __maxnreg__(bound<Observer>(kFlashV1BackwardRegisters))
    flash_v1_backward(BackwardParams p, Observer log) {
  using Tile = BackwardTile<kWidth>;
  constexpr int kBlockM = Tile::kBlockM, kBlockN = Tile::kBlockN, kPitch = Tile::kPitch, kSPitch = smem_pitch(kBlockN);
  constexpr FlashV1BackwardSmem kLayout = flash_v1_backward_smem(kBlockM, kBlockN, kWidth);
  extern __shared__ float4 shared[];
  float* const smem = reinterpret_cast<float*>(shared);
  float* const smem_q = smem + kLayout.q;      // [kBlockM][kPitch]
  float* const smem_do = smem + kLayout.d_o;   // [kBlockM][kPitch]
  float* const smem_o = smem + kLayout.o;      // [kBlockM][kPitch]
  float* const smem_dq = smem + kLayout.o;     // [kBlockM][kPitch], in the same place once D is known
  float* const smem_k = smem + kLayout.k;      // [kBlockN][kPitch], at the end dK
  float* const smem_v = smem + kLayout.v;      // [kBlockN][kPitch], at the end dV
  float* const smem_s = smem + kLayout.s;      // [kBlockM][kSPitch], P, then dS
  float* const smem_lse = smem + kLayout.lse;  // [kBlockM]
  float* const smem_d = smem + kLayout.d;      // [kBlockM]

  BackwardPlace<T> at = BackwardPlace<T>::of_keys(p);
  const Range dims = at.dims(), heads = {at.head, at.head + at.group()};
  const int depth = round_up(p.head_dim, 4);
  const auto rows_of_block = [&](int m_block) { return rows_of_tile(p.mask.seqlen_q, kBlockM, m_block); };

  // 1. dQ = 0, in global memory.
  for (int n = threadIdx.x; n < kBlockM * kPitch; n += kFmaThreads) smem_dq[n] = 0;
  __syncthreads();
  for (at.head = heads.begin; at.head < heads.end; ++at.head)
    for (int m_block = 0; m_block < num_tiles(p.mask.seqlen_q, kBlockM); ++m_block) {
      const Range rows = rows_of_block(m_block);
      log.compute(Op::clear_gradient, at.head, rows, dims, 0, Tensor::dQ);
      store_tile(smem_dq, kPitch, at.d_q(rows), log);
    }
  __syncthreads();  // what this CTA wrote, all of its threads may read from here on

  for (int n_block = 0; n_block < num_tiles(p.mask.seqlen_k, kBlockN); ++n_block) {
    // 2. A key tile comes once for all heads of the group; seen from it, the mask has its axes exchanged.
    const Range keys = rows_of_tile(p.mask.seqlen_k, kBlockN, n_block);
    const int num_keys = size_of(keys);
    const Range m_blocks = visited_tiles(transposed(p.mask), kBlockN, kBlockM, n_block);
    at.head = heads.begin;
    if (m_blocks.begin < m_blocks.end) {
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

    for (at.head = heads.begin; at.head < heads.end; ++at.head)
      for (int m_block = m_blocks.begin; m_block < m_blocks.end; ++m_block) {
        // 3. A query tile comes in. D = rowsum(dO ∘ O), a row a thread, in the order of dP's contraction.
        const Range rows = rows_of_block(m_block);
        const int num_rows = size_of(rows);
        load_tile(smem_q, kPitch, at.q(rows), log);
        load_tile(smem_do, kPitch, at.d_o(rows), log);
        load_tile(smem_o, kPitch, at.o(rows), log);
        load_tile(smem_lse, 1, at.lse(rows), log);
        zero_rest<kBlockM, kWidth>(smem_q, num_rows, p.head_dim);
        zero_rest<kBlockM, kWidth>(smem_do, num_rows, p.head_dim);
        zero_rest<kBlockM, kWidth>(smem_o, num_rows, p.head_dim);
        for (int n = num_rows + threadIdx.x; n < kBlockM; n += kFmaThreads) smem_lse[n] = INFINITY;  // P = 0 there
        __syncthreads();
        if (threadIdx.x < kBlockM) smem_d[threadIdx.x] = row_dot<kPitch>(smem_do, smem_o, threadIdx.x, depth);
        log.compute(Op::row_dot, at.head, rows, dims, 0, Tensor::O);

        // 4. P = exp(softmax_scale · Q Kᵀ - LSE).
        float acc_s[Tile::kRows][Tile::kKeys];
        clear(acc_s);
        add_product_transposed(acc_s, smem_q, kPitch, smem_k, kPitch, depth);
        log.compute(Op::scores, at.head, rows, keys, p.head_dim);
        const bool masked = !all_kept(p.mask, rows, keys);
        scale_and_mask(acc_s, p.softmax_scale, p.mask, rows.begin, keys.begin, masked || num_keys < kBlockN);
        if (masked) log.compute(Op::mask, at.head, rows, keys);
        scores_to_probabilities(acc_s, smem_lse);
        log.compute(Op::probabilities, at.head, rows, keys);
        stage_scores(smem_s, kSPitch, acc_s);
        __syncthreads();  // P is in shared memory, and O has been read: its place takes dQ

        // 5. dV += Pᵀ dO, dP = dO Vᵀ, dS = P ∘ (dP - D).
        load_tile(smem_dq, kPitch, at.d_q(rows), log);
        add_product_down<kBlockM>(acc_dv, smem_s, kSPitch, smem_do, kPitch);
        log.compute(Op::gradient_sum, at.head, keys, dims, num_rows, Tensor::dV);
        float acc_dp[Tile::kRows][Tile::kKeys];
        clear(acc_dp);
        add_product_transposed(acc_dp, smem_do, kPitch, smem_v, kPitch, depth);
        log.compute(Op::d_probabilities, at.head, rows, keys, p.head_dim);
        to_score_gradients(acc_dp, acc_s, smem_d);
        log.compute(Op::d_scores, at.head, rows, keys);
        __syncthreads();  // all have read P: dS may take its place
        stage_scores(smem_s, kSPitch, acc_dp);
        __syncthreads();

        // 6. dK += dSᵀ Q, its scale comes at the end; dQ += softmax_scale · dS K, and goes back.
        add_product_down<kBlockM>(acc_dk, smem_s, kSPitch, smem_q, kPitch);
        log.compute(Op::gradient_sum, at.head, keys, dims, num_rows, Tensor::dK);
        constexpr int kPart = Tile::kCols <= 8 ? Tile::kCols : 4;  // of a thread's columns: no registers for more
#pragma unroll 1
        for (int first = 0; first < kWidth; first += kPart * kFmaThreadCols) {
          float acc_dq[Tile::kRows][kPart];
          clear(acc_dq);
          add_product<kBlockN>(acc_dq, smem_s, kSPitch, smem_k + first, kPitch);
#pragma unroll
          for (int r = 0; r < Tile::kRows; ++r)
#pragma unroll
            for (int c = 0; c < kPart; ++c)
              smem_dq[row_of(r) * kPitch + first + column_of<kPart>(c)] += p.softmax_scale * acc_dq[r][c];
        }
        log.compute(Op::gradient_sum, at.head, rows, dims, num_keys, Tensor::dQ);
        __syncthreads();
        store_tile(smem_dq, kPitch, at.d_q(rows), log);
        __syncthreads();  // dQ has left; the next query tile may come, and read what was written
      }
    at.head = heads.begin;

    // 7. One write each of dK and dV. A key that no query sees has gradients 0.
    scale(acc_dk, p.softmax_scale);
    __syncthreads();  // also where no query tile came by: the rows of K and V before have left
    stage_output(smem_k, kPitch, acc_dk);
    stage_output(smem_v, kPitch, acc_dv);
    __syncthreads();
    store_tile(smem_k, kPitch, at.d_k(keys), log);
    store_tile(smem_v, kPitch, at.d_v(keys), log);
    __syncthreads();
  }
}

struct FlashV1Backward {
  template <class T, int kWidth, class Observer>
  static const void* function() {
    return reinterpret_cast<const void*>(&flash_v1_backward<T, kWidth, Observer>);
  }
};

}  // namespace

const void* flash_v1_backward_kernel(int, DType dtype, int head_dim, bool logged) {
  return instance<FlashV1Backward>(dtype, head_dim, logged);
}

}  // namespace flashscope::kernels
