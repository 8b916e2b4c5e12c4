// Decode, split_kv: the keys split over CTAs, a CTA for all query heads that share them; then the parts combined.
//
//   flashscope measure --algorithm split_kv --heads 32 --kv-heads 8 --seqlen-q 1 --seqlen-k 131072 --head-dim 128
//
// Every byte of the cache is used for a handful of multiply-adds, so there is one thing to get right: enough bytes under
// way. A CTA loads a tile of K and V whole (32 KiB at head_dim 128), waits, computes; four CTAs an SM do so beside each
// other, and while one computes the others' loads are under way. By Little's law 4 TB/s over 132 SMs need about 21 KiB an
// SM in flight for a latency of 700 ns.
//
// Over rung 06 (flash_v2_tensor) this changes two things:
//   * the 16 rows of a tensor-core product are query heads, not queries: Br rows of each head that shares the KV head;
//   * sixteen rows are too few to share among warps, so the warps share the keys: each has its own m, l and acc over its
//     quarter of every tile, and at the end the four are added up, in the order of the warps.
//
// Instances of its own (decode_split_kv_paged.cu) take K and V in pages: the entries of the block table for the next tile
// travel beside K and V of this one, and a copy asks shared memory where its row lies.
#include "kernels/common/mma.cuh"
#include "kernels/decode/split_kv.cuh"
#include "kernels/decode/split_kv_fma.h"
#include "kernels/forward/launchers.h"
#include "kernels/forward/rungs.h"

namespace flashscope::kernels {
namespace {

static_assert(kDecodeThreads == kMmaThreads);  // as start_load() takes them

/// e^x by one instruction of the special function unit.
[[maybe_unused]] __device__ __forceinline__ float exp_fast(float x) { return exp2_of(x * 1.44269504f); }

/// Starts the copies of all our heads' rows, one head below the other; what is no row is zero. The columns beyond
/// head_dim are left to zero_columns().
template <int kWidth, class T, class Params>
__device__ __forceinline__ void start_queries(T* smem_q, const DecodePlace<T, Params>& at) {
  using S = Swizzle<kWidth>;
  for (int n = 0; n < at.heads; ++n) {
    const GlobalTile<T> tile = at.q(n);
    const T* const source = tile.base + tile.first();
    if (copies_vectors(tile)) {
      for (TileCursor c(threadIdx.x * kChunk, blockDim.x * kChunk, tile.num_cols()); c.row < tile.num_rows(); c.advance())
        copy_async(smem_q + S::chunk(n * at.block_m + c.row, c.col / kChunk),
                   source + (c.row * tile.row_elements + c.col));
    } else {
      for (TileCursor c(threadIdx.x, blockDim.x, tile.num_cols()); c.row < tile.num_rows(); c.advance())
        smem_q[S::element(n * at.block_m + c.row, c.col)] =
            load_cg<T, 1>(source + (c.row * tile.row_elements + c.col)).values[0];
    }
  }
  for (int n = threadIdx.x; n < kDecodeRows * kWidth; n += blockDim.x)
    if (!at.exists(n / kWidth) && n % kWidth < at.p.head_dim)
      smem_q[S::element(n / kWidth, n % kWidth)] = narrow<T>(0.0f);
}

/// start_load() of rows in pages.
template <int kRows, int kCols, class T, class Observer>
__device__ __forceinline__ void start_rows(T* smem, const GlobalTile<T>& t, const PagedRows<T>& row, Observer& observer) {
  using S = Swizzle<kCols>;
  observer.load(t);
  const int rows = t.num_rows();
  if (t.num_cols() == kCols) {
    constexpr int kRowsAtOnce = kDecodeThreads / S::kChunks;
    const int first = threadIdx.x / S::kChunks, c = threadIdx.x % S::kChunks;
#pragma unroll
    for (int n = 0; n < kRows; n += kRowsAtOnce)
      if (first + n < rows) copy_async(smem + S::chunk(first + n, c), row(first + n) + c * kChunk);
  } else if (t.num_cols() % kChunk == 0) {
#pragma unroll 1
    for (TileCursor at(threadIdx.x * kChunk, blockDim.x * kChunk, t.num_cols()); at.row < rows; at.advance())
      copy_async(smem + S::chunk(at.row, at.col / kChunk), row(at.row) + at.col);
  } else {
#pragma unroll 1
    for (TileCursor at(threadIdx.x, blockDim.x, t.num_cols()); at.row < rows; at.advance())
      smem[S::element(at.row, at.col)] = load_cg<T, 1>(row(at.row) + at.col).values[0];
  }
}

template <class T, int kWidth, class Params, class Observer>
__global__ void __maxnreg__(bound<Observer>(decode_registers(kWidth, sizeof(T)))) split_kv(Params p, Observer log) {
#if __CUDA_ARCH__ >= 800
  constexpr int kBlockN = decode_block_n(sizeof(T)), kOutPitch = smem_pitch(kWidth);
  constexpr int kWarpKeys = kBlockN / kDecodeWarps, kColumns = kWidth / 8;
  static_assert(kWarpKeys == 16);
  constexpr DecodeSmemLayout kLayout = decode_smem(kDecodeRows, kBlockN, kWidth, sizeof(T), Params::kIsPaged);
  extern __shared__ __align__(kSmemAlignment) unsigned char smem[];
  T* const smem_q = reinterpret_cast<T*>(smem + kLayout.q);                  // [kDecodeRows][kWidth], swizzled
  T* const smem_k = reinterpret_cast<T*>(smem + kLayout.k);                  // [kBlockN][kWidth], swizzled
  T* const smem_v = reinterpret_cast<T*>(smem + kLayout.v);                  // [kBlockN][kWidth], swizzled
  float* const smem_o = reinterpret_cast<float*>(smem + kLayout.k);          // at the end: [kDecodeRows][kOutPitch]
  float* const smem_max = reinterpret_cast<float*>(smem + kLayout.row_max);  // at the end LSE
  float* const smem_sum = reinterpret_cast<float*>(smem + kLayout.row_sum);
  [[maybe_unused]] int* const smem_pages = reinterpret_cast<int*>(smem + kLayout.pages);  // [kBlockN]

  // 1. Which heads, which rows, which keys are ours?
  const DecodePlace<T, Params> at(p);
  const Range rows = at.rows, dims = at.dims(), n_blocks = at.key_tiles(kBlockN);
  const int warp = threadIdx.x / kWarpSize, warp_key = warp * kWarpKeys;

  // 2. Q of all our heads; the columns beyond head_dim stay zero from here on.
  zero_columns<kDecodeRows, kWidth>(smem_q, p.head_dim);
  zero_columns<kBlockN, kWidth>(smem_k, p.head_dim);
  zero_columns<kBlockN, kWidth>(smem_v, p.head_dim);
  log.load(at.q(0), 1, at.heads);
  start_queries<kWidth>(smem_q, at);
  const unsigned lane_of_q = lane_of_a<kWidth>(smem_q, 0),
                 lane_of_k = lane_of_b_transposed<kWidth>(smem_k + warp_key * kWidth),
                 lane_of_v = lane_of_b<kWidth>(smem_v);
  Accumulator acc_o[1][kColumns];
  float row_max[kAccumulatorRows] = {-INFINITY, -INFINITY};
  float row_sum[kAccumulatorRows] = {0, 0};  // of this thread's keys
  clear(acc_o);
  log.compute(Op::clear_state, at.first_head, rows, dims, 0, Tensor::Q, at.heads);

  if constexpr (Params::kIsPaged)
    if (n_blocks.begin < n_blocks.end) {  // where K and V lie
      const auto pages = at.pages(rows_of_tile(p.mask.seqlen_k, kBlockN, n_blocks.begin));
      keep_page(smem_pages, pages, load_page(pages, log));
      __syncthreads();
    }

#pragma unroll 1
  for (int n_block = n_blocks.begin; n_block < n_blocks.end; ++n_block) {
    // 3. K and V of this tile, together.
    const Range keys = rows_of_tile(p.mask.seqlen_k, kBlockN, n_block);
    if constexpr (Params::kIsPaged) {
      start_rows<kBlockN, kWidth>(smem_k, at.k(keys), {at, at.k(keys), smem_pages}, log);
      start_rows<kBlockN, kWidth>(smem_v, at.v(keys), {at, at.v(keys), smem_pages}, log);
    } else {
      start_load<kBlockN, kWidth>(smem_k, at.k(keys), log);
      start_load<kBlockN, kWidth>(smem_v, at.v(keys), log);
    }
    zero_rows<kBlockN, kWidth>(smem_k, size_of(keys), p.head_dim);
    zero_rows<kBlockN, kWidth>(smem_v, size_of(keys), p.head_dim);
    commit_copies();
    if constexpr (Params::kIsPaged) {
      const bool goes_on = n_block + 1 < n_blocks.end;
      const auto pages = at.pages(rows_of_tile(p.mask.seqlen_k, kBlockN, n_block + goes_on));
      const int place = goes_on ? load_page(pages, log) : 0;
      wait_for_copies<0>();
      __syncthreads();  // and all have used the pages of this tile
      if (goes_on) keep_page(smem_pages, pages, place);
    } else {
      wait_for_copies<0>();
      __syncthreads();
    }

    // 4. S = softmax_scale · Q Kᵀ of this warp's keys, and -inf where there is no pair.
    Accumulator acc_s[1][2];
    clear(acc_s);
    add_product_transposed<T, kWidth>(acc_s, lane_of_q, lane_of_k);
    log.compute(Op::scores, at.first_head, rows, keys, p.head_dim, Tensor::Q, at.heads);
    const bool masked = !all_kept(p.mask, rows, keys);
    if (masked) log.compute(Op::mask, at.first_head, rows, keys, 0, Tensor::Q, at.heads);
    log.compute(Op::online_softmax, at.first_head, rows, keys, 0, Tensor::Q, at.heads);
#pragma unroll
    for (int half = 0; half < kAccumulatorRows; ++half) {
      float s[4];
#pragma unroll
      for (int n = 0; n < 4; ++n) s[n] = acc_s[0][n / 2].x[2 * half + n % 2] * p.softmax_scale;
      if (masked || size_of(keys) < kBlockN) {
        const Range kept = kept_keys(p.mask, at.query_of(accumulator_row() + 8 * half));
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const int key = keys.begin + warp_key + accumulator_col() + n / 2 * 8 + n % 2;
          if (key < kept.begin || key >= kept.end) s[n] = -INFINITY;
        }
      }

      // 5. Online softmax, as in rung 05.
      const float tile_max = quad_maximum(fmaxf(fmaxf(s[0], s[1]), fmaxf(s[2], s[3])));
      const float new_max = fmaxf(row_max[half], tile_max), base = finite_or_zero(new_max);
      const float rescale = exp_fast(row_max[half] - base);  // before row_max is overwritten
      row_max[half] = new_max;
      row_sum[half] *= rescale;
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const float weight = exp_fast(s[n] - base);
        row_sum[half] += weight;
        acc_s[0][n / 2].x[2 * half + n % 2] = weight;
      }
#pragma unroll
      for (int d = 0; d < kColumns; ++d) {
        acc_o[0][d].x[2 * half] *= rescale;
        acc_o[0][d].x[2 * half + 1] *= rescale;
      }
    }

    // 6. acc_o += P V, P from the registers that held S.
    const FragmentA weights[1] = {as_a<T>(acc_s[0][0], acc_s[0][1])};
    add_product<T>(acc_o, weights, lane_of_v, warp_key);
    log.compute(Op::weighted_sum, at.first_head, rows, dims, size_of(keys), Tensor::Q, at.heads);
    __syncthreads();  // K and V have been read
  }

  // 7. The warps' shares are added up, warp after warp; the last divides.
  commit_copies();
  wait_for_copies<0>();  // Q, where there was no key tile
  __syncthreads();
#pragma unroll 1
  for (int turn = 0; turn < kDecodeWarps; ++turn) {
    if (warp == turn) {
      const bool last = turn == kDecodeWarps - 1;
#pragma unroll
      for (int half = 0; half < kAccumulatorRows; ++half) {
        const int row = accumulator_row() + 8 * half;
        const float other_max = turn > 0 ? smem_max[row] : -INFINITY, other_sum = turn > 0 ? smem_sum[row] : 0;
        const float new_max = fmaxf(row_max[half], other_max), base = finite_or_zero(new_max);
        float mine = exp_fast(row_max[half] - base), others = exp_fast(other_max - base);
        const float sum = quad_total(row_sum[half]) * mine + other_sum * others;
        const float inverse = !last ? 1 : sum > 0 ? 1 / sum : 0;  // a row that sees no key: O = 0, LSE = -inf
        mine *= inverse;
        others *= inverse;
        float2* const out = reinterpret_cast<float2*>(smem_o + row * kOutPitch + accumulator_col());
#pragma unroll
        for (int d = 0; d < kColumns; ++d) {
          const float2 other = turn > 0 ? out[4 * d] : float2{0, 0};
          out[4 * d] = {acc_o[0][d].x[2 * half] * mine + other.x * others,
                        acc_o[0][d].x[2 * half + 1] * mine + other.y * others};
        }
        __syncwarp();  // all four lanes of the row have read its statistics
        if (threadIdx.x % 4 == 0) {
          smem_max[row] = !last ? new_max : sum > 0 ? new_max + logf(sum) : -INFINITY;
          smem_sum[row] = sum;
        }
      }
    }
    __syncthreads();
  }
  log.compute(Op::normalize, at.first_head, rows, dims, 0, Tensor::Q, at.heads);
  log.compute(Op::log_sum_exp, at.first_head, rows, {0, 1}, 0, Tensor::Q, at.heads);
  for (int n = 0; n < at.heads; ++n) store_tile(smem_o + n * at.block_m * kOutPitch, kOutPitch, at.o_split(n), log);
  for (int n = 0; n < at.heads; ++n) store_tile(smem_max + n * at.block_m, 1, at.lse_split(n), log);
#endif
}

template <class T, class Params>
const void* by_width(int head_dim) {
  switch (fma_width(head_dim)) {
    case 32: return reinterpret_cast<const void*>(&split_kv<T, 32, Params, NoObserver>);
    case 64: return reinterpret_cast<const void*>(&split_kv<T, 64, Params, NoObserver>);
    case 128: return reinterpret_cast<const void*>(&split_kv<T, 128, Params, NoObserver>);
    case 256: return reinterpret_cast<const void*>(&split_kv<T, 256, Params, NoObserver>);
    default: return nullptr;
  }
}

template <class Params>
const void* first_kernel(DType dtype, int head_dim, bool logged) {
  if (dtype == DType::fp32) return split_kv_fma_kernel(head_dim, logged, Params::kIsPaged);
  if (logged)
    return dtype == DType::bf16 && head_dim > 32 && head_dim <= 64
               ? reinterpret_cast<const void*>(&split_kv<__nv_bfloat16, 64, Params, OpLog>)
               : nullptr;
  if (dtype == DType::fp16) return by_width<__half, Params>(head_dim);
  if (dtype == DType::bf16) return by_width<__nv_bfloat16, Params>(head_dim);
  return nullptr;
}

#ifndef FLASHSCOPE_PAGED_INSTANCES

// ---- the second kernel ----------------------------------------------------------------------------------------------
//
// O = Σ exp(LSE_split - LSE) O_split, for one query tile of one head. The parts are few megabytes and lie in L2: what
// counts is that their loads do not wait for one another. Each warp has every fourth split and eight of its loads under
// way. Sums run in the order of the splits within a warp, then in the order of the warps: the same bits in every run.

/// Maximum of a row's LSE over the splits, and the sum of their exp(LSE - maximum): each warp for itself.
struct RowTotal {
  float maximum, sum;

  __device__ RowTotal(const float* lse, int splits) : maximum(-INFINITY), sum(0) {
    const int lane = threadIdx.x % kWarpSize;
    for (int split = lane; split < splits; split += kWarpSize) maximum = fmaxf(maximum, lse[split]);
#pragma unroll
    for (int lanes = kWarpSize / 2; lanes > 0; lanes /= 2)
      maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, lanes));
    for (int split = lane; split < splits; split += kWarpSize) sum += exp_of(lse[split] - base());
#pragma unroll
    for (int lanes = kWarpSize / 2; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
  }
  __device__ float base() const { return finite_or_zero(maximum); }
};

/// This warp's share of a row of O, kVec columns a lane and load, into `share`. `part`: the row in the first split.
template <int kVec>
__device__ __forceinline__ void add_parts(float* share, const float* part, std::int64_t step, const float* lse,
                                          float base, int splits, int head_dim) {
  constexpr int kBatch = 8;
  const int warp = threadIdx.x / kWarpSize, lane = threadIdx.x % kWarpSize;
  for (int col = lane * kVec; col < head_dim; col += kWarpSize * kVec) {
    float sums[kVec] = {};
    for (int first = warp; first < splits; first += kBatch * kDecodeWarps) {
      Pack<float, kVec> packs[kBatch];
#pragma unroll
      for (int n = 0; n < kBatch; ++n)
        if (first + n * kDecodeWarps < splits)
          packs[n] = load_cg<float, kVec>(part + (first + n * kDecodeWarps) * step + col);
#pragma unroll
      for (int n = 0; n < kBatch; ++n) {
        if (first + n * kDecodeWarps >= splits) break;
        const float weight = exp_of(lse[first + n * kDecodeWarps] - base);
#pragma unroll
        for (int x = 0; x < kVec; ++x) sums[x] = fmaf(weight, packs[n].values[x], sums[x]);
      }
    }
#pragma unroll
    for (int x = 0; x < kVec; ++x) share[col + x] = sums[x];
  }
}

template <class T, class Observer>
__global__ void __maxnreg__(bound<Observer>(kCombineRegisters)) split_kv_combine(DecodeParams p, Observer log) {
  // 1. Which rows of which head are ours?
  const CtaPlace<T> at(p);
  const int block_m = decode_block_m(p.heads / p.kv_heads), width = fma_width(p.head_dim), splits = p.splits;
  const Range rows = rows_of_tile(p.mask.seqlen_q, block_m, at.inner), dims = at.dims();
  const int first_part = at.head * splits;
  const CombineSmemLayout layout = combine_smem(block_m, splits, width);
  extern __shared__ float smem_floats[];
  float* const smem_lse = smem_floats + layout.lse;        // [block_m][splits]
  float* const smem_share = smem_floats + layout.share;    // [kDecodeWarps][width]
  float* const smem_o = smem_floats + layout.o;            // [block_m][width]
  float* const smem_total = smem_floats + layout.total;    // [block_m], LSE

  // 2. LSE of every split: neighbouring lanes take neighbouring splits.
  const GlobalTile<float> lse_split{Tensor::LSE_split, p.lse_split, first_part, p.mask.seqlen_q, 1, rows, {0, 1}};
  log.load(lse_split, 1, splits);
  for (int r = 0; r < size_of(rows); ++r)
    for (int split = threadIdx.x; split < splits; split += blockDim.x)
      smem_lse[r * splits + split] =
          load_cg<float, 1>(p.lse_split + lse_split.first() + r + std::int64_t{split} * p.mask.seqlen_q).values[0];
  __syncthreads();

  // 3. O of every split, weighted.
  const GlobalTile<float> o_split{Tensor::O_split, p.o_split, first_part, p.mask.seqlen_q, p.head_dim, rows, dims};
  log.load(o_split, 1, splits);
  log.compute(Op::combine, at.head, rows, dims);
  const std::int64_t step = std::int64_t{p.mask.seqlen_q} * p.head_dim;
#pragma unroll 1
  for (int r = 0; r < size_of(rows); ++r) {
    const float* const lse = smem_lse + r * splits;
    const RowTotal total(lse, splits);
    const float* const part = p.o_split + o_split.first() + std::int64_t{r} * p.head_dim;
    float* const share = smem_share + threadIdx.x / kWarpSize * width;
    if (p.head_dim % 4 == 0)
      add_parts<4>(share, part, step, lse, total.base(), splits, p.head_dim);
    else
      add_parts<1>(share, part, step, lse, total.base(), splits, p.head_dim);
    __syncthreads();
    const float inverse = total.sum > 0 ? 1 / total.sum : 0;  // a row that sees no key: O = 0, LSE = -inf
    for (int col = threadIdx.x; col < p.head_dim; col += blockDim.x) {
      float sum = 0;
#pragma unroll
      for (int warp = 0; warp < kDecodeWarps; ++warp) sum += smem_share[warp * width + col];
      smem_o[r * width + col] = sum * inverse;
    }
    if (threadIdx.x == 0) smem_total[r] = total.sum > 0 ? total.maximum + logf(total.sum) : -INFINITY;
    __syncthreads();  // the shares have been read
  }
  log.compute(Op::normalize, at.head, rows, dims);
  log.compute(Op::log_sum_exp, at.head, rows, {0, 1});

  // 4. O and LSE, in the order of the copy.
  store_tile(smem_o, width, at.o(rows), log);
  store_tile(smem_total, 1, at.lse(rows), log);
}

template <class T>
const void* by_log(bool logged) {
  return logged ? reinterpret_cast<const void*>(&split_kv_combine<T, OpLog>)
                : reinterpret_cast<const void*>(&split_kv_combine<T, NoObserver>);
}

const void* combine_kernel(DType dtype, bool logged) {
  if (dtype == DType::fp32) return by_log<float>(logged);
  if (dtype == DType::bf16) return by_log<__nv_bfloat16>(logged);
  return logged ? nullptr : reinterpret_cast<const void*>(&split_kv_combine<__half, NoObserver>);
}

}  // namespace

const void* split_kv_kernel(int kernel, DType dtype, int head_dim, bool logged) {
  return kernel == 1 ? combine_kernel(dtype, logged) : first_kernel<DecodeParams>(dtype, head_dim, logged);
}

#else

const void* paged_function_of(const Schedule& schedule, bool logged) {
  return first_kernel<PagedParams>(schedule.problem().dtype, schedule.problem().head_dim, logged);
}

}  // namespace

const Launcher split_kv_paged_launcher = {paged_function_of, nullptr};

#endif

}  // namespace flashscope::kernels
