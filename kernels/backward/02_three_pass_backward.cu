// Rung 02 backward, three_pass: the chain rule kernel by kernel, as eager frameworks run it.
//
//   flashscope measure --pass backward --algorithm three_pass
//
// The forward pass has kept P. dV = Pᵀ dO; dP = dO Vᵀ; dS = P ∘ (dP - rowsum(P ∘ dP)); dQ = dS K; dK = dSᵀ Q. dP and dS
// are two more N × N matrices in global memory, and of the nine times that one of the three is read or written none can
// be spared: each kernel needs whole rows, or whole columns, of what the one before has left. Nothing is recomputed, four
// products instead of the five of rungs 04 and 05, and it is slower all the same: that is their point.
//
// No kernel here knows of masks: where one has taken a pair out, P is 0, and so is dS.
#include "kernels/backward/backward_tile.cuh"
#include "kernels/backward/place.cuh"
#include "kernels/backward/rungs.h"
#include "kernels/common/instances.cuh"
#include "kernels/common/row_softmax.cuh"

namespace flashscope::kernels {
namespace {

template <class T>
constexpr int registers_by_key(int width) {
  return key_sum_registers(width, std::is_same_v<T, float>, std::is_same_v<T, __nv_bfloat16>);
}

/// dV_j = Σ Pᵀ dO, over all queries of all heads that share the KV head.
template <class T, int kWidth, class Observer>
__global__ void __maxnreg__(bound<Observer>(registers_by_key<T>(kWidth)))
    three_pass_backward_dv(BackwardParams p, Observer log) {
  using Tile = BackwardTile<kWidth>;
  constexpr int kBlockM = Tile::kBlockM, kBlockN = Tile::kBlockN, kPitch = Tile::kPitch, kSPitch = smem_pitch(kBlockN);
  constexpr SmemLayout kLayout = gradient_sum_smem(kBlockM, kBlockN, kWidth, true);
  extern __shared__ float4 shared[];
  float* const smem_p = reinterpret_cast<float*>(shared) + kLayout.a;  // [kBlockM][kSPitch]
  float* const smem_do = reinterpret_cast<float*>(shared) + kLayout.b;  // [kBlockM][kPitch]
  float* const smem_dv = reinterpret_cast<float*>(shared) + kLayout.s;  // [kBlockN][kPitch], over both

  BackwardPlace<T> at = BackwardPlace<T>::of_keys(p);
  const Range keys = rows_of_tile(p.mask.seqlen_k, kBlockN, at.inner), dims = at.dims();
  float acc_dv[Tile::kKeyRows][Tile::kCols];
  clear(acc_dv);
  log.compute(Op::clear_gradient, at.head, keys, dims, 0, Tensor::dV);
  for (const int end = at.head + at.group(); at.head < end; ++at.head)
    for (int m_block = 0; m_block < num_tiles(p.mask.seqlen_q, kBlockM); ++m_block) {
      const Range rows = rows_of_tile(p.mask.seqlen_q, kBlockM, m_block);
      load_tile(smem_p, kSPitch, at.probabilities(rows, keys), log);
      load_tile(smem_do, kPitch, at.d_o(rows), log);
      zero_rest<kBlockM, kBlockN>(smem_p, size_of(rows), size_of(keys));
      zero_rest<kBlockM, kWidth>(smem_do, size_of(rows), p.head_dim);
      __syncthreads();
      add_product_down<kBlockM>(acc_dv, smem_p, kSPitch, smem_do, kPitch);
      log.compute(Op::gradient_sum, at.head, keys, dims, size_of(rows), Tensor::dV);
      __syncthreads();  // all have read both
    }
  stage_output(smem_dv, kPitch, acc_dv);
  __syncthreads();
  store_tile(smem_dv, kPitch, at.d_v(keys), log);
}

/// dP = dO Vᵀ. One CTA a tile.
template <class T, int kWidth, class Observer>
__global__ void __maxnreg__(bound<Observer>(d_probability_registers(std::is_same_v<T, float>)))
    three_pass_backward_dp(BackwardParams p, Observer log) {
  using Tile = BackwardTile<kWidth>;
  constexpr int kBlockM = Tile::kBlockM, kBlockN = Tile::kBlockN, kPitch = Tile::kPitch, kSPitch = smem_pitch(kBlockN);
  constexpr SmemLayout kLayout = three_pass_scores_smem(kBlockM, kBlockN, kWidth);
  extern __shared__ float4 shared[];
  float* const smem_do = reinterpret_cast<float*>(shared) + kLayout.a;  // [kBlockM][kPitch]
  float* const smem_v = reinterpret_cast<float*>(shared) + kLayout.b;   // [kBlockN][kPitch]
  float* const smem_dp = reinterpret_cast<float*>(shared) + kLayout.s;  // [kBlockM][kSPitch], over dO and V

  const BackwardPlace<T> at(p);
  const int n_blocks = num_tiles(p.mask.seqlen_k, kBlockN);
  const Range rows = rows_of_tile(p.mask.seqlen_q, kBlockM, at.inner / n_blocks);
  const Range keys = rows_of_tile(p.mask.seqlen_k, kBlockN, at.inner % n_blocks);
  load_tile(smem_do, kPitch, at.d_o(rows), log);
  load_tile(smem_v, kPitch, at.v(keys), log);
  zero_rest<kBlockM, kWidth>(smem_do, size_of(rows), p.head_dim);
  zero_rest<kBlockN, kWidth>(smem_v, size_of(keys), p.head_dim);
  __syncthreads();
  float acc_dp[Tile::kRows][Tile::kKeys];
  clear(acc_dp);
  add_product_transposed(acc_dp, smem_do, kPitch, smem_v, kPitch, round_up(p.head_dim, 4));
  log.compute(Op::d_probabilities, at.head, rows, keys, p.head_dim);
  __syncthreads();  // all have read dO and V
  stage_scores(smem_dp, kSPitch, acc_dp);
  __syncthreads();
  store_tile(smem_dp, kSPitch, at.d_p(rows, keys), log);
}

/// A vector of a row of P or dP, widened; 0 behind the last key. Rows start on sectors (score_pitch() in walk.h).
template <class T>
struct ScoresVector {
  static constexpr int kVec = kVectorBytes / sizeof(T);
  float x[kVec];

  __device__ void load(const T* row, int key, int num_keys) {
    const auto pack = load_cg<T, kVec>(row + key);
#pragma unroll
    for (int n = 0; n < kVec; ++n) x[n] = key + n < num_keys ? widen(pack.values[n]) : 0.0f;
  }
  __device__ void put(float* smem) const {
#pragma unroll
    for (int n = 0; n < kVec; n += 4)
      *reinterpret_cast<float4*>(smem + n) = make_float4(x[n], x[n + 1], x[n + 2], x[n + 3]);
  }
  __device__ void take(const float* smem) {
#pragma unroll
    for (int n = 0; n < kVec; n += 4) {
      const float4 four = *reinterpret_cast<const float4*>(smem + n);
      x[n] = four.x, x[n + 1] = four.y, x[n + 2] = four.z, x[n + 3] = four.w;
    }
  }
};

/// dS = P ∘ (dP - rowsum(P ∘ dP)), one row of the CTA after the other, by all of its threads. P and dP of a row wait in
/// shared memory for the sum, each vector for the thread that loaded it; a row that does not fit there is loaded again.
template <class T, int kBlockM, class Observer>
__global__ void __maxnreg__(bound<Observer>(kDSoftmaxRegisters)) three_pass_backward_ds(BackwardParams p, Observer log) {
  constexpr int kVec = ScoresVector<T>::kVec, kWarps = kSoftmaxThreads / kWarpSize;
  extern __shared__ float4 shared[];
  float* const scratch = reinterpret_cast<float*>(shared);  // [2][kWarps], for rows in turn
  float* const smem_p = scratch + 2 * kWarps;               // a row, to the end of its last sector
  const BackwardPlace<T> at(p);
  const Range tile_rows = rows_of_tile(p.mask.seqlen_q, kBlockM, at.inner), keys = {0, p.mask.seqlen_k};
  const int num_keys = size_of(keys), padded_keys = score_pitch(num_keys, sizeof(T));
  const bool fits = d_softmax_rows_fit(num_keys);
  float* const smem_dp = smem_p + padded_keys;  // likewise
  const RowWarps warps{kWarps};

  for (int first = tile_rows.begin; first < tile_rows.end; first += kSoftmaxRows) {
    const Range rows = {first, min_int(first + kSoftmaxRows, tile_rows.end)};
    for (int scan = 0; scan < (fits ? 1 : 2); ++scan) {
      log.load(at.probabilities(rows, keys));
      log.load(at.d_p(rows, keys));
    }
    log.compute(Op::row_dot, at.head, rows, keys, 0, Tensor::P);
    log.compute(Op::d_scores, at.head, rows, keys);
    log.store(at.d_s(rows, keys));
    for (int row = rows.begin; row < rows.end; ++row) {
      const GlobalTile<T> own_p = at.probabilities({row, row + 1}, keys), own_dp = at.d_p({row, row + 1}, keys),
                          own_ds = at.d_s({row, row + 1}, keys);
      ScoresVector<T> weights, d_p;
      float sum = 0;
#pragma unroll 1
      for (int key = threadIdx.x * kVec; key < padded_keys; key += kSoftmaxThreads * kVec) {
        weights.load(own_p.base + own_p.first(), key, num_keys);
        d_p.load(own_dp.base + own_dp.first(), key, num_keys);
#pragma unroll
        for (int n = 0; n < kVec; ++n) sum = fmaf(weights.x[n], d_p.x[n], sum);
        if (fits) weights.put(smem_p + key), d_p.put(smem_dp + key);
      }
      const float d = warps.reduce(sum, scratch + row % 2 * kWarps, Plus{});
#pragma unroll 1
      for (int key = threadIdx.x * kVec; key < padded_keys; key += kSoftmaxThreads * kVec) {
        if (fits) {
          weights.take(smem_p + key), d_p.take(smem_dp + key);
        } else {
          weights.load(own_p.base + own_p.first(), key, num_keys);
          d_p.load(own_dp.base + own_dp.first(), key, num_keys);
        }
        Pack<T, kVec> d_s;
#pragma unroll
        for (int n = 0; n < kVec; ++n) d_s.values[n] = narrow<T>(weights.x[n] * (d_p.x[n] - d));
        store_pack(own_ds.base + own_ds.first() + key, d_s);
      }
    }
  }
}

/// dQ_i = softmax_scale · Σ dS K: pass 3 of the forward rung with other operands.
template <class T, int kWidth, class Observer>
__global__ void __maxnreg__(bound<Observer>(query_sum_registers(kWidth)))
    three_pass_backward_dq(BackwardParams p, Observer log) {
  using Tile = BackwardTile<kWidth>;
  constexpr int kBlockM = Tile::kBlockM, kBlockN = Tile::kBlockN, kPitch = Tile::kPitch, kSPitch = smem_pitch(kBlockN);
  constexpr SmemLayout kLayout = gradient_sum_smem(kBlockM, kBlockN, kWidth, false);
  extern __shared__ float4 shared[];
  float* const smem_ds = reinterpret_cast<float*>(shared) + kLayout.a;  // [kBlockM][kSPitch]
  float* const smem_k = reinterpret_cast<float*>(shared) + kLayout.b;   // [kBlockN][kPitch]
  float* const smem_dq = reinterpret_cast<float*>(shared) + kLayout.s;  // [kBlockM][kPitch], over both

  const BackwardPlace<T> at(p);
  const Range rows = rows_of_tile(p.mask.seqlen_q, kBlockM, at.inner), dims = at.dims();
  float acc_dq[Tile::kRows][Tile::kCols];
  clear(acc_dq);
  log.compute(Op::clear_gradient, at.head, rows, dims, 0, Tensor::dQ);
  for (int n_block = 0; n_block < num_tiles(p.mask.seqlen_k, kBlockN); ++n_block) {
    const Range keys = rows_of_tile(p.mask.seqlen_k, kBlockN, n_block);
    load_tile(smem_ds, kSPitch, at.d_s(rows, keys), log);
    load_tile(smem_k, kPitch, at.k(keys), log);
    zero_rest<kBlockM, kBlockN>(smem_ds, size_of(rows), size_of(keys));
    zero_rest<kBlockN, kWidth>(smem_k, size_of(keys), p.head_dim);
    __syncthreads();
    add_product<kBlockN>(acc_dq, smem_ds, kSPitch, smem_k, kPitch);
    log.compute(Op::gradient_sum, at.head, rows, dims, size_of(keys), Tensor::dQ);
    __syncthreads();  // all have read both
  }
  scale(acc_dq, p.softmax_scale);
  stage_output(smem_dq, kPitch, acc_dq);
  __syncthreads();
  store_tile(smem_dq, kPitch, at.d_q(rows), log);
}

/// dK_j = softmax_scale · Σ dSᵀ Q, over all queries of all heads that share the KV head.
template <class T, int kWidth, class Observer>
__global__ void __maxnreg__(bound<Observer>(registers_by_key<T>(kWidth)))
    three_pass_backward_dk(BackwardParams p, Observer log) {
  using Tile = BackwardTile<kWidth>;
  constexpr int kBlockM = Tile::kBlockM, kBlockN = Tile::kBlockN, kPitch = Tile::kPitch, kSPitch = smem_pitch(kBlockN);
  constexpr SmemLayout kLayout = gradient_sum_smem(kBlockM, kBlockN, kWidth, true);
  extern __shared__ float4 shared[];
  float* const smem_ds = reinterpret_cast<float*>(shared) + kLayout.a;  // [kBlockM][kSPitch]
  float* const smem_q = reinterpret_cast<float*>(shared) + kLayout.b;  // [kBlockM][kPitch]
  float* const smem_dk = reinterpret_cast<float*>(shared) + kLayout.s;  // [kBlockN][kPitch], over both

  BackwardPlace<T> at = BackwardPlace<T>::of_keys(p);
  const Range keys = rows_of_tile(p.mask.seqlen_k, kBlockN, at.inner), dims = at.dims();
  float acc_dk[Tile::kKeyRows][Tile::kCols];
  clear(acc_dk);
  log.compute(Op::clear_gradient, at.head, keys, dims, 0, Tensor::dK);
  for (const int end = at.head + at.group(); at.head < end; ++at.head)
    for (int m_block = 0; m_block < num_tiles(p.mask.seqlen_q, kBlockM); ++m_block) {
      const Range rows = rows_of_tile(p.mask.seqlen_q, kBlockM, m_block);
      load_tile(smem_ds, kSPitch, at.d_s(rows, keys), log);
      load_tile(smem_q, kPitch, at.q(rows), log);
      zero_rest<kBlockM, kBlockN>(smem_ds, size_of(rows), size_of(keys));
      zero_rest<kBlockM, kWidth>(smem_q, size_of(rows), p.head_dim);
      __syncthreads();
      add_product_down<kBlockM>(acc_dk, smem_ds, kSPitch, smem_q, kPitch);
      log.compute(Op::gradient_sum, at.head, keys, dims, size_of(rows), Tensor::dK);
      __syncthreads();  // all have read both
    }
  scale(acc_dk, p.softmax_scale);
  stage_output(smem_dk, kPitch, acc_dk);
  __syncthreads();
  store_tile(smem_dk, kPitch, at.d_k(keys), log);
}

struct ValueGradient {
  template <class T, int kWidth, class Observer>
  static const void* function() {
    return reinterpret_cast<const void*>(&three_pass_backward_dv<T, kWidth, Observer>);
  }
};
struct KeyGradient {
  template <class T, int kWidth, class Observer>
  static const void* function() {
    return reinterpret_cast<const void*>(&three_pass_backward_dk<T, kWidth, Observer>);
  }
};
struct DProbabilities {
  template <class T, int kWidth, class Observer>
  static const void* function() {
    return reinterpret_cast<const void*>(&three_pass_backward_dp<T, kWidth, Observer>);
  }
};
struct DScores {
  template <class T, int kWidth, class Observer>
  static const void* function() {
    return reinterpret_cast<const void*>(&three_pass_backward_ds<T, BackwardTile<kWidth>::kBlockM, Observer>);
  }
};
struct QueryGradient {
  template <class T, int kWidth, class Observer>
  static const void* function() {
    return reinterpret_cast<const void*>(&three_pass_backward_dq<T, kWidth, Observer>);
  }
};

}  // namespace

const void* three_pass_backward_kernel(int kernel, DType dtype, int head_dim, bool logged) {
  switch (kernel) {
    case 0: return instance<ValueGradient>(dtype, head_dim, logged);
    case 1: return instance<DProbabilities>(dtype, head_dim, logged);
    case 2: return instance<DScores>(dtype, head_dim, logged);
    case 3: return instance<QueryGradient>(dtype, head_dim, logged);
    default: return instance<KeyGradient>(dtype, head_dim, logged);
  }
}

}  // namespace flashscope::kernels
