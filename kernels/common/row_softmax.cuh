// Pass 2 of the three-pass rungs (02, 03): P = softmax(S), whole rows from global memory to global memory.
#pragma once
#include "kernels/common/tile.cuh"

namespace flashscope::kernels {

/// Maximum or sum over the CTA; every thread gets it. `scratch`: one float a warp.
template <class Combine>
__device__ float over_cta(float x, float* scratch, Combine combine) {
  for (int lanes = kWarpSize / 2; lanes > 0; lanes /= 2) x = combine(x, __shfl_xor_sync(~0u, x, lanes));
  __syncthreads();  // the last use of scratch is over
  if (threadIdx.x % kWarpSize == 0) scratch[threadIdx.x / kWarpSize] = x;
  __syncthreads();
  x = scratch[0];
  for (int warp = 1; warp < kSoftmaxThreads / kWarpSize; ++warp) x = combine(x, scratch[warp]);
  return x;
}

struct Greater {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Plus {
  __device__ float operator()(float a, float b) const { return a + b; }
};

/// What pass 2 knows of a row after its first sweep.
struct RowStatistics {
  float base, inverse, lse;  // maximum (0 in an empty row), 1 / sum (0), log-sum-exp
};

/// First sweep over a row, by the whole CTA: its maximum and sum. A row that fits stays on chip as e^(s - m); one that
/// does not needs both in one go: an online softmax. `first` is the key at which this thread starts, the same in every
/// sweep, so smem_row needs no barrier.
template <int kVec, class T>
__device__ RowStatistics row_statistics(const T* s, int first, int num_keys, float* smem_row, float* scratch) {
  const bool fits = softmax_row_fits(num_keys);
  float thread_max = -INFINITY, thread_sum = 0;
  for (int key = first; key < num_keys; key += kSoftmaxThreads * kVec) {
    const Pack<T, kVec> pack = load_cg<T, kVec>(s + key);
    float x[kVec], pack_max = -INFINITY;
#pragma unroll
    for (int n = 0; n < kVec; ++n) pack_max = fmaxf(pack_max, x[n] = widen(pack.values[n]));
    const float new_max = fmaxf(thread_max, pack_max);
    if (fits) {
#pragma unroll
      for (int n = 0; n < kVec; ++n) smem_row[key + n] = x[n];
    } else {
      thread_sum *= exp_of(thread_max - finite_or_zero(new_max));
#pragma unroll
      for (int n = 0; n < kVec; ++n) thread_sum += exp_of(x[n] - finite_or_zero(new_max));
    }
    thread_max = new_max;
  }
  const float row_max = over_cta(thread_max, scratch, Greater{});
  const float base = finite_or_zero(row_max);
  if (fits) {
    for (int key = first; key < num_keys; key += kSoftmaxThreads * kVec)
#pragma unroll
      for (int n = 0; n < kVec; ++n) thread_sum += smem_row[key + n] = exp_of(smem_row[key + n] - base);
  } else {
    thread_sum *= exp_of(thread_max - base);
  }
  const float row_sum = over_cta(thread_sum, scratch, Plus{});
  if (row_sum == 0) return {0, 0, -INFINITY};  // a row that sees no key: P = 0, LSE = -inf
  return {base, 1 / row_sum, row_max + logf(row_sum)};
}

/// Second sweep: P = e^(s - m) / l.
template <int kVec, class T>
__device__ void write_probabilities(const T* s, T* p, int first, int num_keys, const float* smem_row, float base,
                                    float inverse) {
  const bool fits = softmax_row_fits(num_keys);
  for (int key = first; key < num_keys; key += kSoftmaxThreads * kVec) {
    Pack<T, kVec> pack;
    if (!fits) pack = load_cg<T, kVec>(s + key);
#pragma unroll
    for (int n = 0; n < kVec; ++n) {
      const float weight = fits ? smem_row[key + n] : exp_of(widen(pack.values[n]) - base);
      pack.values[n] = narrow<T>(weight * inverse);
    }
    store_pack(p + key, pack);
  }
}

/// P = softmax(S), kSoftmaxRows rows at a time. A row that fits is held in shared memory between its two
/// sweeps; longer rows are swept once each, then a second time.
template <class T, int kBlockM, class Observer>
__global__ void __maxnreg__(bound<Observer>(kSoftmaxRegisters)) three_pass_softmax(KernelParams p, Observer log) {
  constexpr int kVec = kVectorBytes / sizeof(T);
  extern __shared__ float4 shared[];
  float* const smem_lse = reinterpret_cast<float*>(shared);  // [kSoftmaxRows]
  float* const scratch = smem_lse + 128;                     // one float a warp
  float* const smem_base = smem_lse + 192;                   // [kSoftmaxRows]
  float* const smem_inverse = smem_lse + 224;                // [kSoftmaxRows]
  float* const smem_row = smem_lse + 256;                    // [seqlen_k], after the KiB that softmax_row_bytes() adds

  const CtaPlace<T> at(p);
  const Range tile_rows = rows_of_tile(p.mask.seqlen_q, kBlockM, at.inner), keys = {0, p.mask.seqlen_k};
  const bool fits = softmax_row_fits(size_of(keys));
  const bool vectors = copies_vectors(at.scores({tile_rows.begin, tile_rows.begin + 1}, keys));
  const int first_key = threadIdx.x * (vectors ? kVec : 1);
  const auto write_row = [&](int row, float base, float inverse) {
    const GlobalTile<T> s = at.scores({row, row + 1}, keys), to = at.probabilities({row, row + 1}, keys);
    if (vectors)
      write_probabilities<kVec>(s.base + s.first(), to.base + to.first(), first_key, size_of(keys), smem_row, base,
                                inverse);
    else
      write_probabilities<1>(s.base + s.first(), to.base + to.first(), first_key, size_of(keys), smem_row, base,
                             inverse);
  };

  for (int begin = tile_rows.begin; begin < tile_rows.end; begin += kSoftmaxRows) {
    const Range rows = {begin, min_int(begin + kSoftmaxRows, tile_rows.end)};
    log.load(at.scores(rows, keys));
    if (!fits) log.load(at.scores(rows, keys));
    log.compute(Op::softmax, at.head, rows, keys);
    for (int row = rows.begin; row < rows.end; ++row) {
      const GlobalTile<T> s = at.scores({row, row + 1}, keys);
      const T* const from = s.base + s.first();
      const RowStatistics statistics = vectors ? row_statistics<kVec>(from, first_key, size_of(keys), smem_row, scratch)
                                               : row_statistics<1>(from, first_key, size_of(keys), smem_row, scratch);
      if (fits) write_row(row, statistics.base, statistics.inverse);
      if (threadIdx.x == 0) {
        smem_lse[row - rows.begin] = statistics.lse;
        smem_base[row - rows.begin] = statistics.base;
        smem_inverse[row - rows.begin] = statistics.inverse;
      }
    }
    __syncthreads();
    if (!fits)
      for (int row = rows.begin; row < rows.end; ++row)
        write_row(row, smem_base[row - rows.begin], smem_inverse[row - rows.begin]);
    log.store(at.probabilities(rows, keys));
    log.compute(Op::log_sum_exp, at.head, rows, {0, 1});
    store_tile(smem_lse, 1, at.lse(rows), log);
    __syncthreads();  // the next rows take the place of these statistics
  }
}

}  // namespace flashscope::kernels
