// Rung 06, flash_v2_tensor: the loops of flash_v2 on tensor cores, with copies under way while the CTA computes.
//
//   flashscope measure --algorithm flash_v2_tensor
//
// Over rung 05 (flash_v2) this adds
//   * mma.sync: a warp multiplies 16 × 16 by 16 × 8 in one instruction, operands in the storage dtype (fp16, bf16), sums
//     in float32 (mma.cuh);
//   * the query split over warps: each owns 32 rows (16 at head_dim 256) and every key of the tile, so a row's maximum
//     and sum need shuffles among four lanes only, and P goes from one product to the next in registers;
//   * cp.async: V of this key tile travels while Q Kᵀ is computed, K of the next while softmax and P V are.
//
//   copies     K0 | V0            | K1              | V1            | K2 ...
//   compute         S0 = Q K0ᵀ     softmax, O += P V0  S1 = Q K1ᵀ     softmax, O += P V1
//
// What it still leaves undone: a warp's exponentials wait for its products and the other way round, and Hopper's tensor
// cores reach their full rate with other, asynchronous instructions only.
#include <limits>

#include "kernels/common/mma.cuh"
#include "kernels/common/tile_walk.cuh"
#include "kernels/forward/launchers.h"
#include "sim/schedule/tensor_rungs.h"

namespace flashscope::kernels {
namespace {

template <int kWidth, int kBlockN_>
struct MmaTile {
  static constexpr int kBlockM = mma_block_m(kWidth);
  static constexpr int kBlockN = kBlockN_;
  static constexpr int kWarpRows = kBlockM / kMmaWarps;
  static constexpr int kM = kWarpRows / 16;  // accumulators of a warp: down its rows,
  static constexpr int kN = kBlockN / 8;     // along the keys of S,
  static constexpr int kD = kWidth / 8;      // along the columns of O
};

/// Of a row that has seen no key. Finite: exp2(-inf - kNoMaximum) is 0, exp2(kNoMaximum - kNoMaximum) is 1.
constexpr float kNoMaximum = std::numeric_limits<float>::lowest();

/// A thread's rows.
template <int kM>
struct Rows {
  float x[kM][kAccumulatorRows];
};

/// The maxima of the scaled scores move up; says by how much what was summed up before shrinks. All rows side by side:
/// one after the other, each would wait for its own chain of comparisons, shuffles and exponentials.
template <int kM, int kN>
__device__ __forceinline__ Rows<kM> raise_maxima(Rows<kM>& row_max, const Accumulator (&acc_s)[kM][kN],
                                                 float scale_log2) {
  Rows<kM> tile_max, rescale;
#pragma unroll
  for (int n = 0; n < kN; ++n)
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int half = 0; half < kAccumulatorRows; ++half) {
        const float pair_max = fmaxf(acc_s[m][n].x[2 * half], acc_s[m][n].x[2 * half + 1]);
        tile_max.x[m][half] = n == 0 ? pair_max : fmaxf(tile_max.x[m][half], pair_max);
      }
#pragma unroll
  for (int lanes = 1; lanes < 4; lanes *= 2)  // that share a row
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int half = 0; half < kAccumulatorRows; ++half)
        tile_max.x[m][half] = fmaxf(tile_max.x[m][half], __shfl_xor_sync(~0u, tile_max.x[m][half], lanes));
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int half = 0; half < kAccumulatorRows; ++half) {
      const float old_max = row_max.x[m][half];
      row_max.x[m][half] = fmaxf(old_max, tile_max.x[m][half] * scale_log2);
      rescale.x[m][half] = exp2_of(old_max - row_max.x[m][half]);
    }
  return rescale;
}

/// The maxima of a warp's rows stand still most of the time, and acc_o is as it should be.
template <int kM, int kD>
__device__ __forceinline__ void rescale_output(Accumulator (&acc_o)[kM][kD], const Rows<kM>& rescale) {
  bool still = true;
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int half = 0; half < kAccumulatorRows; ++half) still = still && rescale.x[m][half] == 1;
  if (__all_sync(~0u, still)) return;
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int d = 0; d < kD; ++d)
#pragma unroll
      for (int x = 0; x < 4; ++x) acc_o[m][d].x[x] *= rescale.x[m][x / kAccumulatorRows];
}

/// Scores are left unscaled: exp2((s - max) · c) with c = |softmax_scale| · log2 e is one multiply-add and one
/// exponential. What remains of the scale is its sign; a scale of 0 makes all scores equal.
template <int kM, int kN>
__device__ __forceinline__ void apply_sign(Accumulator (&acc_s)[kM][kN], float softmax_scale) {
  const float sign = softmax_scale < 0 ? -1.0f : 0.0f;
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int n = 0; n < kN; ++n)
#pragma unroll
      for (int x = 0; x < 4; ++x) acc_s[m][n].x[x] *= sign;
}

/// -inf where the pair is not kept or the key does not exist. `row` is this thread's first.
template <int kM, int kN>
__device__ __forceinline__ void apply_mask(Accumulator (&acc_s)[kM][kN], const MaskShape& mask, int row,
                                           int first_key) {
  const int key = first_key + accumulator_col();
  row = opaque(row);
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int half = 0; half < kAccumulatorRows; ++half) {
      const Range kept = kept_keys(mask, row + 16 * m + 8 * half);
#pragma unroll
      for (int n = 0; n < kN; ++n)
#pragma unroll
        for (int x = 0; x < 2; ++x) {
          const int at = key + 8 * n + x;
          if (at < kept.begin || at >= kept.end) acc_s[m][n].x[2 * half + x] = -INFINITY;
        }
    }
}

/// What packed sequences and blocks leave of a key tile, as bits: of this lane's row of the warp's.
template <int kM, int kN>
__device__ __forceinline__ std::uint64_t kept_bits_of_lane(const SparseMask& mask, int warp_row, int first_key) {
  static_assert(16 * kM <= kWarpSize && 8 * kN <= 64);
  const int lane = opaque(threadIdx.x) % kWarpSize;
  return kept_bits(mask, warp_row + lane % (16 * kM), {first_key, first_key + 8 * kN});
}
/// apply_mask() with such bits: shuffles hand them around.
template <int kM, int kN>
__device__ __forceinline__ void apply_bits(Accumulator (&acc_s)[kM][kN], std::uint64_t bits_of_lane) {
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int half = 0; half < kAccumulatorRows; ++half) {
      const std::uint64_t bits =
          __shfl_sync(~0u, bits_of_lane, 16 * m + 8 * half + accumulator_row()) >> accumulator_col();
#pragma unroll
      for (int n = 0; n < kN; ++n)
#pragma unroll
        for (int x = 0; x < 2; ++x)
          if ((bits >> (8 * n + x) & 1) == 0) acc_s[m][n].x[2 * half + x] = -INFINITY;
    }
}

/// Places in the log: Q, the cleared state and the first K; then so many for each key tile.
constexpr int kLogFirst = 3, kLogTile = 6;

template <class T, int kWidth, int kBlockN, class Params, class Observer>
__global__ void __maxnreg__(bound<Observer>(flash_v2_tensor_registers(kWidth, kBlockN, Params::kIsSparse)))
    flash_v2_tensor(Params p, Observer log) {
#if __CUDA_ARCH__ >= 800
  using Tile = MmaTile<kWidth, kBlockN>;
  constexpr int kBlockM = Tile::kBlockM;
  constexpr MmaSmemLayout kLayout = flash_v2_tensor_smem(kBlockM, kBlockN, kWidth);
  extern __shared__ __align__(kSmemAlignment) unsigned char shared_bytes[];
  T* const smem = reinterpret_cast<T*>(shared_bytes);
  T* const smem_q = smem + kLayout.q;  // [kBlockM][kWidth], swizzled; at the end O
  T* const smem_k = smem + kLayout.k;  // [kBlockN][kWidth], swizzled
  T* const smem_v = smem + kLayout.v;  // [kBlockN][kWidth], swizzled

  // 1. Which query tile of which head is ours, which key tiles does it see, and which rows are this thread's?
  const CtaPlace<T> at(p);
  const int m_block = at.inner;
  const Range rows = rows_of_tile(p.mask.seqlen_q, kBlockM, m_block), dims = at.dims();
  TileWalk n_blocks(p.mask, kBlockM, kBlockN, m_block, smem + kLayout.elements);
  const Range unmasked = whole_tiles(p.mask, kBlockM, kBlockN, m_block);  // in a band
  const int warp_row = threadIdx.x / kWarpSize * Tile::kWarpRows;  // of the tile
  const auto thread_row = [] {  // where it is needed: no register holds it through the loop
    const int thread = opaque(threadIdx.x);
    return thread / kWarpSize * Tile::kWarpRows + thread % kWarpSize / 4;
  };
  const float scale_log2 = p.softmax_scale == 0 ? 1.0f : fabsf(p.softmax_scale) * 1.44269504f;

  // 2. Q and the first K set out together.
  zero_columns<kBlockM, kWidth>(smem_q, p.head_dim);  // they stay zero from here on
  zero_columns<kBlockN, kWidth>(smem_k, p.head_dim);
  zero_columns<kBlockN, kWidth>(smem_v, p.head_dim);
  start_load<kBlockM, kWidth>(smem_q, at.q(rows), log);
  zero_rows<kBlockM, kWidth>(smem_q, size_of(rows), p.head_dim);
  commit_copies();  // also where no key tile follows: a wait knows of nothing that was not committed
  const unsigned lane_of_q = lane_of_a<kWidth>(smem_q, warp_row), lane_of_k = lane_of_b_transposed<kWidth>(smem_k),
                 lane_of_v = lane_of_b<kWidth>(smem_v);

  Accumulator acc_o[Tile::kM][Tile::kD];
  // The running maximum, scaled. Were it kept unscaled, the compiler would fuse its product with scale_log2 into the
  // difference of two maxima: equal ones would then differ by a rounding error, and the sums would drift tile by tile.
  Rows<Tile::kM> row_max;
  Rows<Tile::kM> row_sum;  // of this thread's keys; the lanes of a row are added up at the end
  clear(acc_o);
#pragma unroll
  for (int m = 0; m < Tile::kM; ++m)
#pragma unroll
    for (int half = 0; half < kAccumulatorRows; ++half) row_max.x[m][half] = kNoMaximum, row_sum.x[m][half] = 0;
  log.compute(Op::clear_state, at.head, rows, dims);
  const auto keys_of = [&](int n_block) { return rows_of_tile(p.mask.seqlen_k, kBlockN, n_block); };
  NoObserver unlogged;
  const auto start_keys = [&](T* smem_tile, const GlobalTile<T>& tile) {
    start_load<kBlockN, kWidth, true, true>(smem_tile, tile, unlogged);
    zero_rows<kBlockN, kWidth>(smem_tile, tile.num_rows(), p.head_dim);
    commit_copies();
  };
  // Its place in the log is counted from the tile, not carried along in a register.
  const Range visited = visited_tiles(p.mask, kBlockM, kBlockN, m_block);
  const auto log_at_tile = [&](int n_block) { log.at(~0u, kLogFirst + kLogTile * (n_block - visited.begin), 0); };
  // What a key tile takes, in this order; written down at once, while registers are free.
  const auto log_key_tile = [&](int n_block, int next) {
    const Range keys = keys_of(n_block);
    log_at_tile(n_block);
    log.load(at.v(keys));
    log.compute(Op::scores, at.head, rows, keys, p.head_dim);
    if (!std::is_same_v<Observer, NoObserver> && !all_kept(p.mask, rows, keys))
      log.compute(Op::mask, at.head, rows, keys);
    if (next < n_blocks.end()) log.load(at.k(keys_of(next)));
    log.compute(Op::online_softmax, at.head, rows, keys);
    log.compute(Op::weighted_sum, at.head, rows, dims, size_of(keys));
  };
  const int first = n_blocks.first();
  if (first < n_blocks.end()) {
    log.load(at.k(keys_of(first)));
    start_keys(smem_k, at.k(keys_of(first)));
  }

  // Sparse masks have this twice, for tiles with something to mask and for whole ones: beside the instructions that mask,
  // registers do not suffice for products and copies. With every block kept, one loop for both takes 1.13 times the dense
  // one, two loops 1.03 times.
  const auto key_tile = [&](int n_block, auto is_masked) {
    [[maybe_unused]] constexpr bool kIsMasked = decltype(is_masked)::value;
    int next = 0;
    [[maybe_unused]] std::uint64_t kept = 0;
    if constexpr (Params::kIsSparse) {
      if constexpr (kIsMasked)  // before the scores, while registers are free
        kept = kept_bits_of_lane<Tile::kM, Tile::kN>(p.mask, rows.begin + warp_row, n_block * kBlockN);
      n_blocks.look_ahead();
    } else {
      next = n_block + 1;
      log_key_tile(n_block, next);
    }

    // 3. S = Q Kᵀ while V is on its way.
    wait_for_copies<0>();
    __syncthreads();  // K has arrived for all; all have read the V before
    start_keys(smem_v, at.v(keys_of(n_block)));
    Accumulator acc_s[Tile::kM][Tile::kN];
    clear(acc_s);
    add_product_transposed<T, kWidth>(acc_s, lane_of_q, lane_of_k);
    if (p.softmax_scale <= 0) apply_sign(acc_s, p.softmax_scale);
    if constexpr (Params::kIsSparse) {
      constexpr std::uint64_t kAll = ~std::uint64_t{0} >> (64 - kBlockN);
      if (kIsMasked && __any_sync(~0u, kept != kAll)) apply_bits(acc_s, kept);  // else there is work for other warps only
    } else if (n_block < unmasked.begin || n_block >= unmasked.end) {
      apply_mask(acc_s, p.mask, rows.begin + thread_row(), n_block * kBlockN);
    }

    // 4. V has arrived and K has been read: the next K sets out.
    wait_for_copies<0>();
    __syncthreads();
    if constexpr (Params::kIsSparse) next = n_blocks.ahead();
    if (next < n_blocks.end()) start_keys(smem_k, at.k(keys_of(next)));

    // 5. Online softmax, as in rung 05.
    const Rows<Tile::kM> rescale = raise_maxima(row_max, acc_s, scale_log2);
    rescale_output(acc_o, rescale);
#pragma unroll
    for (int m = 0; m < Tile::kM; ++m)
#pragma unroll
      for (int half = 0; half < kAccumulatorRows; ++half) row_sum.x[m][half] *= rescale.x[m][half];
#pragma unroll
    for (int n = 0; n < Tile::kN; ++n)
#pragma unroll
      for (int m = 0; m < Tile::kM; ++m)
#pragma unroll
        for (int x = 0; x < 4; ++x) {
          float& s = acc_s[m][n].x[x];
          s = exp2_of(fmaf(s, scale_log2, -row_max.x[m][x / 2]));
          row_sum.x[m][x / 2] += s;
        }

    // 6. acc_o += P V, 16 keys at a time, P from the registers that held S.
#pragma unroll
    for (int n = 0; n < Tile::kN; n += 2) {
      FragmentA weights[Tile::kM];
#pragma unroll
      for (int m = 0; m < Tile::kM; ++m) weights[m] = as_a<T>(acc_s[m][n], acc_s[m][n + 1]);
      add_product<T>(acc_o, weights, lane_of_v, 8 * n);
    }
    if constexpr (Params::kIsSparse) {
      n_blocks.advance();
      if (n_blocks.is_at_window_end()) {  // once in hundreds of tiles: that K sets out late
        next = n_blocks.next_window();
        if (next < n_blocks.end()) start_keys(smem_k, at.k(keys_of(next)));
      }
      log_key_tile(n_block, next);
    }
    return next;
  };
  int n_block = first;
  if constexpr (Params::kIsSparse) {
    const auto is_whole = [&] { return (n_block + 1) * kBlockN <= p.mask.seqlen_k && n_blocks.is_whole(); };
#pragma unroll 1
    while (n_block < n_blocks.end()) {
#pragma unroll 1
      while (n_block < n_blocks.end() && is_whole()) n_block = key_tile(n_block, std::false_type());
      if (n_block < n_blocks.end()) n_block = key_tile(n_block, std::true_type());
    }
  } else {
#pragma unroll 1
    while (n_block < n_blocks.end()) n_block = key_tile(n_block, std::false_type());  // a band asks as it goes
  }

  // 7. One division, one write. O takes Q's place; each warp writes its own rows there.
  log_at_tile(visited.end);
  wait_for_copies<0>();  // Q, where no key tile was visited
  __syncthreads();       // all have read Q, and K
  float* const smem_lse = reinterpret_cast<float*>(smem_k);  // [kBlockM]
  const int first_row = thread_row();
#pragma unroll
  for (int m = 0; m < Tile::kM; ++m)
#pragma unroll
    for (int half = 0; half < kAccumulatorRows; ++half) {
      const int row = first_row + 16 * m + 8 * half;
      const float sum = quad_total(row_sum.x[m][half]);
      const float inverse = sum > 0 ? 1 / sum : 0;  // a row that sees no key: O = 0, LSE = -inf
#pragma unroll
      for (int d = 0; d < Tile::kD; ++d)
        *reinterpret_cast<unsigned*>(smem_q + Swizzle<kWidth>::chunk(row, d) + accumulator_col()) =
            rounded_pair<T>(acc_o[m][d].x[2 * half] * inverse, acc_o[m][d].x[2 * half + 1] * inverse);
      // fmaf: left to the compiler, dense and sparse instances would round differently.
      const float log_sum = sum > 0 ? fmaf(row_max.x[m][half], 0.693147181f, logf(sum)) : -INFINITY;
      if (threadIdx.x % 4 == 0) smem_lse[row] = log_sum;
    }
  log.compute(Op::normalize, at.head, rows, dims);
  log.compute(Op::log_sum_exp, at.head, rows, {0, 1});
  __syncthreads();
  store_rounded<kWidth>(smem_q, at.o({opaque(rows.begin), rows.end}), log);
  store_tile(smem_lse, 1, at.lse(rows), log);
#endif
}

template <class T, class Params, class Observer>
const void* by_tile(int width, int bc) {
  const auto is = [&](int width_, int bc_) { return width == width_ && bc == bc_; };
  constexpr int kLoggedBc = mma_block_n(64, kMmaFewKeys, Params::kIsSparse);
  if (is(64, kLoggedBc)) return reinterpret_cast<const void*>(&flash_v2_tensor<T, 64, kLoggedBc, Params, Observer>);
  if constexpr (std::is_same_v<Observer, NoObserver>) {
    if (is(32, 64)) return reinterpret_cast<const void*>(&flash_v2_tensor<T, 32, 64, Params, Observer>);
    if constexpr (!Params::kIsSparse)
      if (is(64, 128)) return reinterpret_cast<const void*>(&flash_v2_tensor<T, 64, 128, Params, Observer>);
    if (is(128, 64)) return reinterpret_cast<const void*>(&flash_v2_tensor<T, 128, 64, Params, Observer>);
    if (is(256, 32)) return reinterpret_cast<const void*>(&flash_v2_tensor<T, 256, 32, Params, Observer>);
  }
  return nullptr;
}

template <class Params>
const void* function_of(const Schedule& schedule, bool logged) {
  const AttentionProblem& p = schedule.problem();
  const int width = fma_width(p.head_dim), bc = schedule.tile().bc;
  if (logged) return p.dtype == DType::bf16 ? by_tile<__nv_bfloat16, Params, OpLog>(width, bc) : nullptr;
  if (p.dtype == DType::fp16) return by_tile<__half, Params, NoObserver>(width, bc);
  if (p.dtype == DType::bf16) return by_tile<__nv_bfloat16, Params, NoObserver>(width, bc);
  return nullptr;
}

}  // namespace

#ifdef FLASHSCOPE_SPARSE_INSTANCES
const Launcher flash_v2_tensor_sparse_launcher = {function_of<SparseParams<KernelParams>>, nullptr};
#else
const Launcher flash_v2_tensor_launcher = {function_of<KernelParams>, nullptr};
#endif

}  // namespace flashscope::kernels
