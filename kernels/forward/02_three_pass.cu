// Rung 02, three_pass: S = QKᵀ, P = softmax(S), O = PV as three kernels over shared-memory tiles.
//
//   flashscope measure --algorithm three_pass
//
// Over rung 01 (three_pass_naive) this adds the tile: a CTA brings a block of each operand on chip once and every
// element of it serves a whole row or column of the result, so the products ask global memory Br or Bc times less
// often. What no tile can help: S and P, N × N each, are written and read back in full, and that is most of the traffic
// at long sequences. Rungs 04 and 05 never write them.
//
// As eager attention does, it computes all pairs: under a mask scores become -inf, no tile is skipped. Rung 03 puts the
// same three passes on the tensor cores.
#include "kernels/common/instances.cuh"
#include "kernels/forward/rungs.h"

namespace flashscope::kernels {
namespace {

/// Pass 1: S = softmax_scale · Q Kᵀ, masked, in the storage dtype. One CTA a tile of S.
template <class T, int kWidth, class Observer>
__global__ void __maxnreg__(bound<Observer>(kScoresRegisters)) three_pass_scores(KernelParams p, Observer log) {
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

/// Pass 2: P = softmax(S), kSoftmaxRows rows at a time. A row that fits is held in shared memory between its two
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

struct Scores {
  template <class T, int kWidth, class Observer>
  static const void* function() {
    return reinterpret_cast<const void*>(&three_pass_scores<T, kWidth, Observer>);
  }
};
struct Softmax {
  template <class T, int kWidth, class Observer>
  static const void* function() {
    return reinterpret_cast<const void*>(&three_pass_softmax<T, FmaTile<kWidth>::kBlockM, Observer>);
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
    case 0: return instance<Scores>(dtype, head_dim, logged);
    case 1: return instance<Softmax>(dtype, head_dim, logged);
    case 2: return instance<WeightedSum>(dtype, head_dim, logged);
    default: return nullptr;
  }
}

}  // namespace flashscope::kernels
