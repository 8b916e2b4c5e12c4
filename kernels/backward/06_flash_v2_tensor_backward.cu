// Rung 06 backward, flash_v2_tensor: the two kernels of flash_v2's backward pass on tensor cores.
//
//   flashscope measure --pass backward --algorithm flash_v2_tensor
//
// Over rung 05 backward this adds mma.sync and cp.async as in the forward rung 06, and one more idea: each kernel
// multiplies so that what it owns lies in the rows of a warp. The kernel of dK and dV computes Sᵀ = K Qᵀ and
// dPᵀ = V dOᵀ, a warp for its own keys; Pᵀ and dSᵀ then are, rounded, the left operands of dV += Pᵀ dO and
// dK += dSᵀ Q, in the very registers where they came into being. The kernel of dQ does the same with queries as rows.
// Nothing that is N² long is ever written to shared memory, warps meet once a tile, and that only for the copies.
//
//   copies     tile 0 | tile 1                     | tile 2 ...
//   compute             S, dP, two sums of tile 0    S, dP, two sums of tile 1
//
// One kernel or two? Per tile pair a single kernel runs five products, two run seven: S and dP twice. At equal speed of
// the products that is 5/7, 71 %, of FlashAttention-2, which runs five and adds to dQ by atomics, in any order. To add in
// one order, the CTAs of a head would have to wait for each other at every query tile, and read and write dQ in
// float32, 8 · d bytes a row, beside the 4 · d of Q and dO that they stream anyway. And its P and dS go through shared
// memory, because dQ needs them with queries as rows; here they do not.
//
// What bounds it: a warp of kM · 16 rows reads 16 bytes a lane from shared memory for every 2 · kM products. Products
// come every 1.55 clocks on an SM of an H200 (2,641 FLOP a clock), reads every 4: two row blocks a warp balance the two,
// and at head_dim 128, where the registers hold one, shared memory is the limit at about 1,800 FLOP a clock.
#include "kernels/backward/backward_mma.cuh"
#include "kernels/backward/rungs.h"
#include "sim/problem.h"

namespace flashscope::kernels {
namespace {

/// D = rowsum(dO ∘ O): the diagonal of dO Oᵀ. A warp multiplies 16 rows by 16 and keeps 16 of the 256 results, because D
/// then adds up in the same order as dP: where a row sees a single key, O is its V, and dP - D is 0 to the last bit, as
/// it should be. The kernel waits for memory, not for this.
template <class T, int kWidth, class Observer>
__global__ void __maxnreg__(bound<Observer>(row_dot_tensor_registers(kWidth)))
    flash_v2_tensor_backward_row_dot(BackwardParams p, Observer log) {
#if __CUDA_ARCH__ >= 800
  using Tile = MmaBackwardTile<kWidth, false, Observer>;
  constexpr int kBlockM = Tile::kBlockM;
  extern __shared__ __align__(kSmemAlignment) unsigned char shared_bytes[];
  T* const smem_o = reinterpret_cast<T*>(shared_bytes);                              // [kBlockM][kWidth], swizzled
  T* const smem_do = smem_o + kBlockM * kWidth;                                      // [kBlockM][kWidth], swizzled
  float* const smem_d = reinterpret_cast<float*>(smem_do + kBlockM * kWidth);        // [kBlockM]

  const BackwardPlace<T> at(p);
  const Range rows = rows_of_tile(p.mask.seqlen_q, kBlockM, at.inner);
  zero_columns<kBlockM, kWidth>(smem_o, p.head_dim);
  zero_columns<kBlockM, kWidth>(smem_do, p.head_dim);
  start_load<kBlockM, kWidth>(smem_o, at.o(rows), log);
  start_load<kBlockM, kWidth>(smem_do, at.d_o(rows), log);
  zero_rows<kBlockM, kWidth>(smem_o, size_of(rows), p.head_dim);
  zero_rows<kBlockM, kWidth>(smem_do, size_of(rows), p.head_dim);
  commit_copies();
  wait_for_copies<0>();
  __syncthreads();
  const int warp_row = threadIdx.x / kWarpSize * Tile::kWarpRows;
#pragma unroll
  for (int m = 0; m < Tile::kM; ++m) {
    Accumulator square[1][2];  // 16 × 16
    clear(square);
    add_product_transposed<T, kWidth>(square, lane_of_a<kWidth>(smem_do, warp_row + 16 * m),
                                      lane_of_b_transposed<kWidth>(smem_o) + (warp_row + 16 * m) * Tile::kRowBytes);
#pragma unroll
    for (int half = 0; half < kAccumulatorRows; ++half)
#pragma unroll
      for (int x = 0; x < 2; ++x)  // row and column of the left upper, or of the right lower, 8 × 8
        if (accumulator_row() == accumulator_col() + x)
          smem_d[warp_row + 16 * m + 8 * half + accumulator_row()] = square[0][half].x[2 * half + x];
  }
  log.compute(Op::row_dot, at.head, rows, at.dims(), 0, Tensor::O);
  __syncthreads();
  store_tile(smem_d, 1, at.d(rows), log);
#endif
}

/// dK and dV of one key tile of one KV head: query tiles come by, head after head of the group.
template <class T, int kWidth, class Observer>
__global__ void __maxnreg__(bound<Observer>(kKeyGradientsTensorRegisters))
    flash_v2_tensor_backward_dk_dv(BackwardParams p, Observer log) {
#if __CUDA_ARCH__ >= 800
  using Tile = MmaBackwardTile<kWidth, true, Observer>;
  constexpr int kBlockM = Tile::kBlockM, kBlockN = Tile::kBlockN, kChunk = Tile::kChunk;
  constexpr MmaBackwardSmem kLayout = mma_backward_smem(kBlockM, kBlockN, kWidth, kMmaBackwardStages, true);
  constexpr unsigned kStageBytes = kLayout.stage * sizeof(T);
  extern __shared__ __align__(kSmemAlignment) unsigned char shared_bytes[];
  T* const smem = reinterpret_cast<T*>(shared_bytes);
  T* const smem_k = smem + kLayout.owned[0];  // [kBlockN][kWidth], swizzled; at the end dK
  T* const smem_v = smem + kLayout.owned[1];  // [kBlockN][kWidth], swizzled; at the end dV
  T* const smem_q = smem + kLayout.streamed;  // [kBlockM][kWidth], swizzled; the next stage after kLayout.stage
  T* const smem_do = smem_q + kLayout.stage / 2;                                         // likewise
  float* const smem_lse = reinterpret_cast<float*>(smem + kLayout.statistics);           // [stage][kBlockM]
  float* const smem_d = smem_lse + kMmaBackwardStages * kBlockM;                         // [stage][kBlockM]

  // 1. Which key tile of which KV head is ours, and which query tiles see it? The mask with its axes exchanged.
  BackwardPlace<T> at = BackwardPlace<T>::of_keys(p);
  const Range keys = rows_of_tile(p.mask.seqlen_k, kBlockN, at.inner), dims = at.dims();
  const Range m_blocks = visited_tiles(transposed(p.mask), kBlockN, kBlockM, at.inner);
  const int warp_row = threadIdx.x / kWarpSize * Tile::kWarpRows;  // of the tile
  const int thread_row = warp_row + accumulator_row();

  // 2. K and V come once and stay.
  zero_columns<kBlockN, kWidth>(smem_k, p.head_dim);  // they stay zero from here on
  zero_columns<kBlockN, kWidth>(smem_v, p.head_dim);
  for (int stage = 0; stage < kMmaBackwardStages; ++stage) {
    zero_columns<kBlockM, kWidth>(smem_q + stage * kLayout.stage, p.head_dim);
    zero_columns<kBlockM, kWidth>(smem_do + stage * kLayout.stage, p.head_dim);
  }
  if (m_blocks.begin < m_blocks.end) {
    start_load<kBlockN, kWidth>(smem_k, at.k(keys), log);
    start_load<kBlockN, kWidth>(smem_v, at.v(keys), log);
    zero_rows<kBlockN, kWidth>(smem_k, size_of(keys), p.head_dim);
    zero_rows<kBlockN, kWidth>(smem_v, size_of(keys), p.head_dim);
  }
  Accumulator acc_dk[Tile::kM][Tile::kD], acc_dv[Tile::kM][Tile::kD];
  clear(acc_dk);
  clear(acc_dv);
  log.compute(Op::clear_gradient, at.head, keys, dims, 0, Tensor::dK);
  log.compute(Op::clear_gradient, at.head, keys, dims, 0, Tensor::dV);
  const unsigned lane_of_k = lane_of_a<kWidth>(smem_k, warp_row);
  // Of the first stage: Q as a right operand along its rows, for S, and down its columns, for dK. V lies kToV behind K,
  // dO kToDo behind Q.
  const unsigned lane_of_q = lane_of_b_transposed<kWidth>(smem_q), lane_down_q = lane_of_b<kWidth>(smem_q);
  constexpr unsigned kToV = kLayout.owned[1] * sizeof(T), kToDo = kStageBytes / 2;

  int stage = 0;
  float next_lse = 0, next_d = 0;  // of one row of the tile that is under way
  const auto start_queries = [&](int m_block, int to_stage) {
    const Range rows = rows_of_tile(p.mask.seqlen_q, kBlockM, m_block);
    T* const to_q = smem_q + to_stage * kLayout.stage;
    T* const to_do = smem_do + to_stage * kLayout.stage;
    start_load<kBlockM, kWidth>(to_q, at.q(rows), log);
    start_load<kBlockM, kWidth>(to_do, at.d_o(rows), log);
    next_lse = start_statistic(at.lse(rows), INFINITY, log);  // past the end: P = 0, sums over queries do not see them
    next_d = start_statistic(at.d(rows), 0, log);
    zero_rows<kBlockM, kWidth>(to_q, size_of(rows), p.head_dim);
    zero_rows<kBlockM, kWidth>(to_do, size_of(rows), p.head_dim);
    commit_copies();
  };

  for (const int end = at.head + at.group(); at.head < end; ++at.head)
#pragma unroll 1
    for (int m_block = m_blocks.begin - 1; m_block < m_blocks.end; ++m_block) {  // the first turn only starts a copy
      const bool is_here = m_block >= m_blocks.begin, is_last = m_block + 1 == m_blocks.end;
      const Range rows = rows_of_tile(p.mask.seqlen_q, kBlockM, m_block);

      // 3. This tile has arrived, the one before has been read: the next sets out in its place.
      if (is_here) {
        if (threadIdx.x < kBlockM) {
          smem_lse[stage * kBlockM + threadIdx.x] = next_lse;
          smem_d[stage * kBlockM + threadIdx.x] = next_d;
        }
        wait_for_copies<0>();
        __syncthreads();
      }
      if (!is_last) start_queries(m_block + 1, stage ^ 1);

      // 4. Chunk by chunk, what fits in the registers beside dK and dV: Sᵀ and dPᵀ, and their shares of the sums.
      const bool masked = !all_kept(p.mask, rows, keys);
      const int end_row = is_here ? size_of(rows) : 0;
      if (is_here) {  // said once a tile
        log.compute(Op::scores, at.head, rows, keys, p.head_dim);
        if (masked) log.compute(Op::mask, at.head, rows, keys);
        log.compute(Op::probabilities, at.head, rows, keys);
        log.compute(Op::d_probabilities, at.head, rows, keys, p.head_dim);
        log.compute(Op::d_scores, at.head, rows, keys);
        log.compute(Op::gradient_sum, at.head, keys, dims, size_of(rows), Tensor::dV);
        log.compute(Op::gradient_sum, at.head, keys, dims, size_of(rows), Tensor::dK);
      }
#pragma unroll 1
      for (int first = 0; first < end_row; first += kChunk) {
        const unsigned chunk = stage * kStageBytes + first * Tile::kRowBytes;
        const int column = stage * kBlockM + first + accumulator_col();

        // Pᵀ = exp(softmax_scale · K Qᵀ - LSE). Keys past the end are rows that nobody stores.
        Accumulator acc_s[Tile::kM][Tile::kN];
        clear(acc_s);
        add_product_transposed<T, kWidth>(acc_s, lane_of_k, lane_of_q + chunk);
        to_probabilities(acc_s, p.softmax_scale, OfColumns{smem_lse + column});
        if (masked) drop_masked(acc_s, transposed(p.mask), keys.begin + thread_row, rows.begin + first);

        // dPᵀ = V dOᵀ, dSᵀ = Pᵀ ∘ (dPᵀ - D).
        Accumulator acc_dp[Tile::kM][Tile::kN];
        clear(acc_dp);
        add_product_transposed<T, kWidth>(acc_dp, lane_of_k, lane_of_q + chunk, kToV, kToDo);
        to_score_gradients(acc_dp, acc_s, OfColumns{smem_d + column});

        // dV += Pᵀ dO, dK += dSᵀ Q; the scale comes at the end.
        add_to_gradient<T>(acc_dv, acc_s, lane_down_q + (chunk + kToDo));
        add_to_gradient<T>(acc_dk, acc_dp, lane_down_q + chunk);
      }
      if (!is_last) stage ^= 1;
    }

  // 5. One write each, through the places of K and V. A key that no query sees has gradients 0.
  __syncthreads();
  stage_gradient<T, kWidth>(smem_k, acc_dk, thread_row, p.softmax_scale);
  stage_gradient<T, kWidth>(smem_v, acc_dv, thread_row, 1);
  __syncthreads();
  store_rounded<kWidth>(smem_k, at.d_k(keys), log);
  store_rounded<kWidth>(smem_v, at.d_v(keys), log);
#endif
}

/// dQ of one query tile: K and V stream by, as in the forward pass.
template <class T, int kWidth, class Observer>
__global__ void __maxnreg__(bound<Observer>(kQueryGradientTensorRegisters))
    flash_v2_tensor_backward_dq(BackwardParams p, Observer log) {
#if __CUDA_ARCH__ >= 800
  using Tile = MmaBackwardTile<kWidth, false, Observer>;
  constexpr int kBlockM = Tile::kBlockM, kBlockN = Tile::kBlockN, kChunk = Tile::kChunk;
  constexpr MmaBackwardSmem kLayout = mma_backward_smem(kBlockM, kBlockN, kWidth, kMmaBackwardStages, false);
  constexpr unsigned kStageBytes = kLayout.stage * sizeof(T);
  extern __shared__ __align__(kSmemAlignment) unsigned char shared_bytes[];
  T* const smem = reinterpret_cast<T*>(shared_bytes);
  T* const smem_q = smem + kLayout.owned[0];   // [kBlockM][kWidth], swizzled; at the end dQ
  T* const smem_do = smem + kLayout.owned[1];  // [kBlockM][kWidth], swizzled
  T* const smem_k = smem + kLayout.streamed;   // [kBlockN][kWidth], swizzled; the next stage after kLayout.stage
  T* const smem_v = smem_k + kLayout.stage / 2;                                 // likewise
  float* const smem_lse = reinterpret_cast<float*>(smem + kLayout.statistics);  // [kBlockM]
  float* const smem_d = smem_lse + kBlockM;                                     // [kBlockM]

  // 1. Which query tile is ours? The last first: under a causal mask it sees the most keys, and long CTAs should not be
  //    the last that run.
  const BackwardPlace<T> at(p);
  const int head = at.head, m_block = p.ctas_per_head - 1 - at.inner;
  const Range rows = rows_of_tile(p.mask.seqlen_q, kBlockM, m_block), dims = at.dims();
  const Range n_blocks = visited_tiles(p.mask, kBlockM, kBlockN, m_block);
  const int warp_row = threadIdx.x / kWarpSize * Tile::kWarpRows;  // of the tile
  const int thread_row = warp_row + accumulator_row();

  // 2. Q, dO and the statistics of our rows come once and stay.
  zero_columns<kBlockM, kWidth>(smem_q, p.head_dim);  // they stay zero from here on
  zero_columns<kBlockM, kWidth>(smem_do, p.head_dim);
  for (int stage = 0; stage < kMmaBackwardStages; ++stage) {
    zero_columns<kBlockN, kWidth>(smem_k + stage * kLayout.stage, p.head_dim);
    zero_columns<kBlockN, kWidth>(smem_v + stage * kLayout.stage, p.head_dim);
  }
  start_load<kBlockM, kWidth>(smem_q, at.q(rows), log);
  start_load<kBlockM, kWidth>(smem_do, at.d_o(rows), log);
  const float row_lse = start_statistic(at.lse(rows), INFINITY, log), row_d = start_statistic(at.d(rows), 0, log);
  zero_rows<kBlockM, kWidth>(smem_q, size_of(rows), p.head_dim);
  zero_rows<kBlockM, kWidth>(smem_do, size_of(rows), p.head_dim);
  commit_copies();  // also where no key tile follows: a wait knows of nothing that was not committed
  Accumulator acc_dq[Tile::kM][Tile::kD];
  clear(acc_dq);
  log.compute(Op::clear_gradient, head, rows, dims, 0, Tensor::dQ);
  const unsigned lane_of_q = lane_of_a<kWidth>(smem_q, warp_row);
  // Of the first stage: K as a right operand along its rows, for S, and down its columns, for dQ. dO lies kToDo behind
  // Q, V kToV behind K.
  const unsigned lane_of_k = lane_of_b_transposed<kWidth>(smem_k), lane_down_k = lane_of_b<kWidth>(smem_k);
  constexpr unsigned kToDo = kLayout.owned[1] * sizeof(T), kToV = kStageBytes / 2;

  const auto start_keys = [&](int n_block, int to_stage) {
    const Range keys = rows_of_tile(p.mask.seqlen_k, kBlockN, n_block);
    T* const to_k = smem_k + to_stage * kLayout.stage;
    T* const to_v = smem_v + to_stage * kLayout.stage;
    start_load<kBlockN, kWidth>(to_k, at.k(keys), log);
    start_load<kBlockN, kWidth>(to_v, at.v(keys), log);
    zero_rows<kBlockN, kWidth>(to_k, size_of(keys), p.head_dim);
    zero_rows<kBlockN, kWidth>(to_v, size_of(keys), p.head_dim);
    commit_copies();
  };
  OfRows<Tile::kM> lse, d;  // of this thread's rows
  int stage = 0;
#pragma unroll 1
  for (int n_block = n_blocks.begin - 1; n_block < n_blocks.end; ++n_block) {  // the first turn only starts a copy
    const bool is_here = n_block >= n_blocks.begin, is_last = n_block + 1 == n_blocks.end;
    const Range keys = rows_of_tile(p.mask.seqlen_k, kBlockN, n_block);

    // 3. This tile has arrived, the one before has been read: the next sets out in its place.
    if (n_block == n_blocks.begin && threadIdx.x < kBlockM) {
      smem_lse[threadIdx.x] = row_lse;
      smem_d[threadIdx.x] = row_d;
    }
    if (is_here) {
      wait_for_copies<0>();
      __syncthreads();
    }
    if (n_block == n_blocks.begin) {
#pragma unroll
      for (int m = 0; m < Tile::kM; ++m)
#pragma unroll
        for (int half = 0; half < kAccumulatorRows; ++half) {
          lse.x[m][half] = smem_lse[thread_row + 16 * m + 8 * half];
          d.x[m][half] = smem_d[thread_row + 16 * m + 8 * half];
        }
    }
    if (!is_last) start_keys(n_block + 1, stage ^ 1);

    // 4. Chunk by chunk, what fits in the registers beside dQ: S and dP, and their share of the sum.
    const bool masked = !all_kept(p.mask, rows, keys);
    const int end_key = is_here ? size_of(keys) : 0;
    if (is_here) {  // said once a tile
      log.compute(Op::scores, head, rows, keys, p.head_dim);
      if (masked) log.compute(Op::mask, head, rows, keys);
      log.compute(Op::probabilities, head, rows, keys);
      log.compute(Op::d_probabilities, head, rows, keys, p.head_dim);
      log.compute(Op::d_scores, head, rows, keys);
      log.compute(Op::gradient_sum, head, rows, dims, size_of(keys), Tensor::dQ);
    }
#pragma unroll 1
    for (int first = 0; first < end_key; first += kChunk) {
      const unsigned chunk = stage * kStageBytes + first * Tile::kRowBytes;

      // P = exp(softmax_scale · Q Kᵀ - LSE), the second time. A key past the end would weigh exp(-LSE).
      Accumulator acc_s[Tile::kM][Tile::kN];
      clear(acc_s);
      add_product_transposed<T, kWidth>(acc_s, lane_of_q, lane_of_k + chunk);
      to_probabilities(acc_s, p.softmax_scale, lse);
      if (masked || size_of(keys) < kBlockN) drop_masked(acc_s, p.mask, rows.begin + thread_row, keys.begin + first);

      // dP = dO Vᵀ, dS = P ∘ (dP - D).
      Accumulator acc_dp[Tile::kM][Tile::kN];
      clear(acc_dp);
      add_product_transposed<T, kWidth>(acc_dp, lane_of_q, lane_of_k + chunk, kToDo, kToV);
      to_score_gradients(acc_dp, acc_s, d);

      // dQ += dS K; the scale comes at the end.
      add_to_gradient<T>(acc_dq, acc_dp, lane_down_k + chunk);
    }
    if (!is_last) stage ^= 1;
  }

  // 5. One write, through the place of Q.
  wait_for_copies<0>();  // Q, where no key tile was visited
  __syncthreads();
  stage_gradient<T, kWidth>(smem_q, acc_dq, thread_row, p.softmax_scale);
  __syncthreads();
  store_rounded<kWidth>(smem_q, at.d_q(rows), log);
#endif
}

template <class Kernel, class T, class Observer>
const void* by_width(int head_dim) {
  switch (fma_width(head_dim)) {
    case 32: return Kernel::template function<T, 32, Observer>();
    case 64: return Kernel::template function<T, 64, Observer>();
    case 128: return Kernel::template function<T, 128, Observer>();
    default: return nullptr;
  }
}

template <class Kernel>
const void* tensor_instance(DType dtype, int head_dim, bool logged) {
  if (logged)
    return dtype == DType::bf16 && head_dim > 32 && head_dim <= 64 ? Kernel::template function<__nv_bfloat16, 64, OpLog>()
                                                                   : nullptr;
  if (dtype == DType::fp16) return by_width<Kernel, __half, NoObserver>(head_dim);
  if (dtype == DType::bf16) return by_width<Kernel, __nv_bfloat16, NoObserver>(head_dim);
  return nullptr;
}

struct RowDot {
  template <class T, int kWidth, class Observer>
  static const void* function() {
    return reinterpret_cast<const void*>(&flash_v2_tensor_backward_row_dot<T, kWidth, Observer>);
  }
};
struct KeyGradients {
  template <class T, int kWidth, class Observer>
  static const void* function() {
    return reinterpret_cast<const void*>(&flash_v2_tensor_backward_dk_dv<T, kWidth, Observer>);
  }
};
struct QueryGradient {
  template <class T, int kWidth, class Observer>
  static const void* function() {
    return reinterpret_cast<const void*>(&flash_v2_tensor_backward_dq<T, kWidth, Observer>);
  }
};

}  // namespace

const void* flash_v2_tensor_backward_kernel(int kernel, DType dtype, int head_dim, bool logged) {
  switch (kernel) {
    case 0: return tensor_instance<RowDot>(dtype, head_dim, logged);
    case 1: return tensor_instance<KeyGradients>(dtype, head_dim, logged);
    default: return tensor_instance<QueryGradient>(dtype, head_dim, logged);
  }
}

}  // namespace flashscope::kernels
