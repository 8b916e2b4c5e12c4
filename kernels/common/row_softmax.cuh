// Pass 2 of the three-pass rungs (02, 03): P = softmax(S), whole rows from global memory to global memory.
//
// It does nothing but move bytes, so it is as fast as the bytes in flight: each warp asks for a whole row (or its part
// of a long one) at once and holds it in registers, in the storage dtype, until the row's maximum and sum are known. No
// element passes through shared memory. Rows start on sectors and are padded to whole ones (score_pitch() in walk.h):
// every vector is aligned, and what lies behind the last key counts as -inf and is written as zero.
#pragma once
#include "kernels/common/tile.cuh"

namespace flashscope::kernels {

struct Greater {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Plus {
  __device__ float operator()(float a, float b) const { return a + b; }
};

/// The warps of a CTA that share a row.
struct RowWarps {
  int count = 1;  // 1, 2, 4 or 8, aligned groups
  __device__ int warp() const { return threadIdx.x / kWarpSize; }
  __device__ int group() const { return warp() / count; }
  __device__ int lane() const { return threadIdx.x % (count * kWarpSize); }  // of the group

  /// Maximum or sum over the group; every thread gets it. `scratch`: one float a warp of the CTA. Two reductions in a
  /// row need two scratches: a slow warp may still be reading the first.
  template <class Combine>
  __device__ float reduce(float x, float* scratch, Combine combine) const {
    for (int lanes = kWarpSize / 2; lanes > 0; lanes /= 2) x = combine(x, __shfl_xor_sync(~0u, x, lanes));
    if (count == 1) return x;
    if (threadIdx.x % kWarpSize == 0) scratch[warp()] = x;
    asm volatile("bar.sync %0, %1;" ::"r"(1 + group()), "r"(count * kWarpSize) : "memory");
    x = scratch[group() * count];
    for (int n = 1; n < count; ++n) x = combine(x, scratch[group() * count + n]);
    return x;
  }
};

/// What is known of a row once it has been read.
struct RowStatistics {
  float base, inverse, lse;  // maximum (0 in an empty row), 1 / sum (0), log-sum-exp
};
__device__ inline RowStatistics statistics_of(float row_max, float row_sum) {
  if (row_sum == 0) return {0, 0, -INFINITY};  // a row that sees no key: P = 0, LSE = -inf
  return {finite_or_zero(row_max), 1 / row_sum, row_max + logf(row_sum)};
}

/// 16 bytes of a row, as four registers: the compiler gives each element of a Pack one of its own.
struct RowVector {
  int words[4];
  template <class T>
  __device__ __forceinline__ Pack<T, kVectorBytes / sizeof(T)> elements() const {
    Pack<T, kVectorBytes / sizeof(T)> pack;
    memcpy(&pack, words, sizeof words);
    return pack;
  }
  /// The compiler would keep what it widened for the maximum until the sum, and until the probabilities.
  __device__ __forceinline__ void forget_widened() {
#pragma unroll
    for (int& word : words) word = opaque(word);
  }
};

/// Scores from `key` on, as they lie there; nothing behind the last key is read.
template <class T>
__device__ __forceinline__ RowVector load_scores(const T* s, int key, int num_keys) {
  constexpr int kVec = kVectorBytes / sizeof(T);
  Pack<T, kVec> pack = {};
  if (key < num_keys) pack = load_cg<T, kVec>(s + key);
  RowVector x;
  memcpy(x.words, &pack, sizeof x.words);
  return x;
}

/// What lies behind the last key is -inf. Apart from the load: whoever asks for several vectors waits for none of them here.
template <class T>
__device__ __forceinline__ void end_row(RowVector& x, int key, int num_keys) {
  constexpr int kVec = kVectorBytes / sizeof(T), kInWord = 4 / sizeof(T);
  if (key + kVec > num_keys) {
    const T minus_infinity = narrow<T>(-INFINITY);
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      T elements[kInWord];
      memcpy(elements, &x.words[word], 4);
#pragma unroll
      for (int n = 0; n < kInWord; ++n)
        if (key + word * kInWord + n >= num_keys) elements[n] = minus_infinity;
      memcpy(&x.words[word], elements, 4);
      x.words[word] = opaque(x.words[word]);
    }
  }
  x.forget_widened();
}
template <class T>
__device__ __forceinline__ RowVector scores_at(const T* s, int key, int num_keys) {
  RowVector x = load_scores<T>(s, key, num_keys);
  end_row<T>(x, key, num_keys);
  return x;
}

template <class T>
__device__ __forceinline__ void store_probabilities(T* p, int key, RowVector scores, RowStatistics row) {
  constexpr int kVec = kVectorBytes / sizeof(T);
  auto x = scores.template elements<T>();
#pragma unroll
  for (int n = 0; n < kVec; ++n) x.values[n] = narrow<T>(exp_of(widen(x.values[n]) - row.base) * row.inverse);
  store_pack(p + key, x);
}

/// A row that its warps hold in registers: each element is read once and written once. Returns its log-sum-exp.
template <class T>
__device__ __forceinline__ float softmax_in_registers(const T* s, T* p, int num_keys, RowWarps warps, float* scratch) {
  constexpr int kVec = kVectorBytes / sizeof(T);
  const int first = warps.lane() * kVec, step = warps.count * kWarpSize * kVec;
  const int padded_keys = score_pitch(num_keys, sizeof(T));
  RowVector x[kSoftmaxVectors];
#pragma unroll
  for (int n = 0; n < kSoftmaxVectors; ++n) x[n] = load_scores<T>(s, first + n * step, num_keys);
#pragma unroll
  for (int n = 0; n < kSoftmaxVectors; ++n)
    if (n * step < padded_keys) end_row<T>(x[n], first + n * step, num_keys);
  float row_max = -INFINITY, row_sum = 0;
#pragma unroll
  for (int n = 0; n < kSoftmaxVectors; ++n)
    if (n * step < padded_keys) {
#pragma unroll
      for (int i = 0; i < kVec; ++i) row_max = fmaxf(row_max, widen(x[n].template elements<T>().values[i]));
      x[n].forget_widened();
    }
  row_max = warps.reduce(row_max, scratch, Greater{});
  const float base = finite_or_zero(row_max);
#pragma unroll
  for (int n = 0; n < kSoftmaxVectors; ++n)
    if (n * step < padded_keys) {
#pragma unroll
      for (int i = 0; i < kVec; ++i) row_sum += exp_of(widen(x[n].template elements<T>().values[i]) - base);
      x[n].forget_widened();
    }
  row_sum = warps.reduce(row_sum, scratch + kSoftmaxThreads / kWarpSize, Plus{});
  const RowStatistics row = statistics_of(row_max, row_sum);
#pragma unroll
  for (int n = 0; n < kSoftmaxVectors; ++n)
    if (first + n * step < padded_keys) store_probabilities<T>(p, first + n * step, x[n], row);
  return row.lse;
}

/// First sweep over a row too long for the registers of a CTA, by all its warps: maximum and sum in one go, an online
/// softmax.
template <class T>
__device__ RowStatistics sweep_statistics(const T* s, int num_keys, RowWarps warps, float* scratch) {
  constexpr int kVec = kVectorBytes / sizeof(T);
  float thread_max = -INFINITY, thread_sum = 0;
  for (int key = warps.lane() * kVec; key < num_keys; key += kSoftmaxThreads * kVec) {
    const auto pack = scores_at<T>(s, key, num_keys).template elements<T>();
    float new_max = thread_max;
#pragma unroll
    for (int n = 0; n < kVec; ++n) new_max = fmaxf(new_max, widen(pack.values[n]));
    thread_sum *= exp_of(thread_max - finite_or_zero(new_max));
#pragma unroll
    for (int n = 0; n < kVec; ++n) thread_sum += exp_of(widen(pack.values[n]) - finite_or_zero(new_max));
    thread_max = new_max;
  }
  const float row_max = warps.reduce(thread_max, scratch, Greater{});
  thread_sum *= exp_of(thread_max - finite_or_zero(row_max));
  return statistics_of(row_max, warps.reduce(thread_sum, scratch + kSoftmaxThreads / kWarpSize, Plus{}));
}

/// Second sweep: P = e^(s - m) / l.
template <class T>
__device__ void sweep_probabilities(const T* s, T* p, int num_keys, RowWarps warps, RowStatistics row) {
  constexpr int kVec = kVectorBytes / sizeof(T);
  for (int key = warps.lane() * kVec; key < score_pitch(num_keys, sizeof(T)); key += kSoftmaxThreads * kVec)
    store_probabilities<T>(p, key, scores_at<T>(s, key, num_keys), row);
}

/// P = softmax(S) of kSoftmaxRows rows, each by as many warps as can hold it (softmax_warps() in walk.h). Longer rows are
/// swept once each by the whole CTA, then a second time.
template <class T, class Observer>
__global__ void __maxnreg__(bound<Observer>(kSoftmaxRegisters)) three_pass_softmax(KernelParams p, Observer log) {
  extern __shared__ float4 shared[];
  float* const smem_lse = reinterpret_cast<float*>(shared);  // [kSoftmaxRows]
  float* const smem_base = smem_lse + kSoftmaxRows;          // [kSoftmaxRows], as smem_inverse: long rows only
  float* const smem_inverse = smem_base + kSoftmaxRows;
  float* const scratch = smem_inverse + kSoftmaxRows;  // two floats a warp

  const CtaPlace<T> at(p);
  const Range rows = rows_of_tile(p.mask.seqlen_q, kSoftmaxRows, at.inner), keys = {0, p.mask.seqlen_k};
  const int num_keys = size_of(keys), row_warps = softmax_warps(num_keys, sizeof(T));
  const bool fits = row_warps > 0;
  const RowWarps warps{fits ? row_warps : kSoftmaxThreads / kWarpSize};
  const int rows_at_once = kSoftmaxThreads / kWarpSize / warps.count;
  const auto scores_of = [&](int row) {
    const GlobalTile<T> s = at.scores({row, row + 1}, keys);
    return s.base + s.first();
  };
  const auto probabilities_of = [&](int row) {
    const GlobalTile<T> weights = at.probabilities({row, row + 1}, keys);
    return weights.base + weights.first();
  };

  log.load(at.scores(rows, keys));
  if (!fits) log.load(at.scores(rows, keys));
  log.compute(Op::softmax, at.head, rows, keys);
  for (int row = rows.begin + warps.group(); row < rows.end; row += rows_at_once) {
    RowStatistics statistics;
    if (fits) {
      statistics.lse = softmax_in_registers(scores_of(row), probabilities_of(row), num_keys, warps, scratch);
    } else {
      statistics = sweep_statistics(scores_of(row), num_keys, warps, scratch);
      if (warps.lane() == 0) {
        smem_base[row - rows.begin] = statistics.base;
        smem_inverse[row - rows.begin] = statistics.inverse;
      }
    }
    if (warps.lane() == 0) smem_lse[row - rows.begin] = statistics.lse;
  }
  __syncthreads();
  if (!fits)
    for (int row = rows.begin; row < rows.end; ++row)
      sweep_probabilities(scores_of(row), probabilities_of(row), num_keys, warps,
                          {smem_base[row - rows.begin], smem_inverse[row - rows.begin], 0});
  log.store(at.probabilities(rows, keys));
  log.compute(Op::log_sum_exp, at.head, rows, {0, 1});
  store_tile(smem_lse, 1, at.lse(rows), log);
}

}  // namespace flashscope::kernels
