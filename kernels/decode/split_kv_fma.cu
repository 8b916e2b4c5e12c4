// Decode, split_kv for fp32: the same part of the keys on FMA units.
//
// Four rows a warp and a key a lane: a row's maximum and sum are shuffles within its warp, and no two warps add up
// anything between them. Warps without rows rest. What a warp reads of K and V in shared memory serves its four rows.
#include "kernels/decode/split_kv.cuh"
#include "kernels/decode/split_kv_fma.h"

namespace flashscope::kernels {
namespace {

constexpr int kRows = kDecodeRows / kDecodeWarps;  // of a warp

__device__ __forceinline__ float warp_maximum(float x) {
#pragma unroll
  for (int lanes = kWarpSize / 2; lanes > 0; lanes /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, lanes));
  return x;
}
__device__ __forceinline__ float warp_total(float x) {
#pragma unroll
  for (int lanes = kWarpSize / 2; lanes > 0; lanes /= 2) x += __shfl_xor_sync(~0u, x, lanes);
  return x;
}

/// Columns of O that a lane holds: vectors of up to four neighbours, then 32 vectors on.
template <int kColumns>
__device__ __forceinline__ int lane_column(int c) {
  constexpr int kVec = kColumns < 4 ? kColumns : 4;
  return threadIdx.x % kWarpSize * kVec + c % kVec + c / kVec * kVec * kWarpSize;
}

/// acc (a key a lane) = Q Kᵀ of kRows rows over `depth` columns, four at a time.
__device__ __forceinline__ void multiply_keys(float (&acc)[kRows], const float* q, const float* k, int pitch,
                                              int depth) {
  k += threadIdx.x % kWarpSize * pitch;
#pragma unroll 4
  for (int d = 0; d < depth; d += 4) {
    const float4 y = *reinterpret_cast<const float4*>(&k[d]);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float4 x = *reinterpret_cast<const float4*>(&q[r * pitch + d]);
      acc[r] = fmaf(x.x, y.x, acc[r]);
      acc[r] = fmaf(x.y, y.y, acc[r]);
      acc[r] = fmaf(x.z, y.z, acc[r]);
      acc[r] = fmaf(x.w, y.w, acc[r]);
    }
  }
}

/// acc_o += P V, four keys at a time.
template <int kBlockN, int kColumns>
__device__ __forceinline__ void add_values(float (&acc_o)[kRows][kColumns], const float* weights, int weights_pitch,
                                           const float* v, int pitch) {
#pragma unroll 2
  for (int key = 0; key < kBlockN; key += 4) {
    float4 x[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) x[r] = *reinterpret_cast<const float4*>(&weights[r * weights_pitch + key]);
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      float y[kColumns];
      const float* const row = v + (key + step) * pitch;
      if constexpr (kColumns >= 4) {
#pragma unroll
        for (int c = 0; c < kColumns; c += 4) {
          const float4 four = *reinterpret_cast<const float4*>(&row[lane_column<kColumns>(c)]);
          y[c] = four.x, y[c + 1] = four.y, y[c + 2] = four.z, y[c + 3] = four.w;
        }
      } else {
#pragma unroll
        for (int c = 0; c < kColumns; ++c) y[c] = row[lane_column<kColumns>(c)];
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const float weight = step == 0 ? x[r].x : step == 1 ? x[r].y : step == 2 ? x[r].z : x[r].w;
#pragma unroll
        for (int c = 0; c < kColumns; ++c) acc_o[r][c] = fmaf(weight, y[c], acc_o[r][c]);
      }
    }
  }
}

/// All our heads' rows, one head below the other; what is no row, and the columns beyond head_dim, are zero.
template <int kWidth, class Params>
__device__ __forceinline__ void load_queries(float* smem_q, const DecodePlace<float, Params>& at) {
  constexpr int kPitch = smem_pitch(kWidth);
  NoObserver silent;  // the caller says it as one operation
  for (int n = 0; n < at.heads; ++n) load_tile(smem_q + n * at.block_m * kPitch, kPitch, at.q(n), silent);
  for (int n = threadIdx.x; n < kDecodeRows * kWidth; n += blockDim.x)
    if (!at.exists(n / kWidth) || n % kWidth >= at.p.head_dim) smem_q[n / kWidth * kPitch + n % kWidth] = 0;
}

/// load_tile() of rows in pages.
template <class Observer>
__device__ __forceinline__ void load_rows(float* smem, int pitch, const GlobalTile<float>& t, const PagedRows<float>& row,
                                          Observer& observer) {
  observer.load(t);
  if (t.num_cols() % 4 == 0) {
    for (TileCursor at(threadIdx.x * 4, blockDim.x * 4, t.num_cols()); at.row < t.num_rows(); at.advance())
      *reinterpret_cast<float4*>(&smem[at.row * pitch + at.col]) =
          __ldcg(reinterpret_cast<const float4*>(row(at.row) + at.col));
  } else {
    for (TileCursor at(threadIdx.x, blockDim.x, t.num_cols()); at.row < t.num_rows(); at.advance())
      smem[at.row * pitch + at.col] = __ldcg(row(at.row) + at.col);
  }
}

template <int kWidth, class Params, class Observer>
__global__ void __maxnreg__(bound<Observer>(decode_registers(kWidth, sizeof(float)))) split_kv(Params p, Observer log) {
  constexpr int kBlockN = decode_block_n(sizeof(float)), kPitch = smem_pitch(kWidth);
  constexpr int kWeightsPitch = smem_pitch(kBlockN), kColumns = kWidth / kWarpSize;
  static_assert(kBlockN == kWarpSize);
  constexpr DecodeSmemLayout kLayout = decode_smem(kDecodeRows, kBlockN, kWidth, sizeof(float), Params::kIsPaged);
  extern __shared__ float4 shared_vectors[];
  char* const smem = reinterpret_cast<char*>(shared_vectors);
  float* const smem_q = reinterpret_cast<float*>(smem + kLayout.q);  // [kDecodeRows][kPitch]
  float* const smem_k = reinterpret_cast<float*>(smem + kLayout.k);  // [kBlockN][kPitch]; at the end O, like Q
  float* const smem_v = reinterpret_cast<float*>(smem + kLayout.v);  // [kBlockN][kPitch]
  float* const smem_p = reinterpret_cast<float*>(smem + kLayout.p);  // [kDecodeRows][kWeightsPitch]
  float* const smem_lse = reinterpret_cast<float*>(smem + kLayout.row_max);
  [[maybe_unused]] int* const smem_pages = reinterpret_cast<int*>(smem + kLayout.pages);  // [kBlockN]

  // 1. Which heads, which rows, which keys are ours?
  const DecodePlace<float, Params> at(p);
  const Range rows = at.rows, dims = at.dims(), n_blocks = at.key_tiles(kBlockN);
  const int lane = threadIdx.x % kWarpSize, warp_row = threadIdx.x / kWarpSize * kRows;
  const bool works = warp_row < at.heads * at.block_m;
  const int depth = (p.head_dim + 3) / 4 * 4;

  // 2. Q of all our heads.
  log.load(at.q(0), 1, at.heads);
  load_queries<kWidth>(smem_q, at);
  float acc_o[kRows][kColumns];
  float row_max[kRows], row_sum[kRows];  // the sum is of this lane's keys
  clear(acc_o);
#pragma unroll
  for (int r = 0; r < kRows; ++r) row_max[r] = -INFINITY, row_sum[r] = 0;
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
      load_rows(smem_k, kPitch, at.k(keys), {at, at.k(keys), smem_pages}, log);
      load_rows(smem_v, kPitch, at.v(keys), {at, at.v(keys), smem_pages}, log);
    } else {
      load_tile(smem_k, kPitch, at.k(keys), log);
      load_tile(smem_v, kPitch, at.v(keys), log);
    }
    zero_rest<kBlockN, kWidth>(smem_k, size_of(keys), p.head_dim);
    zero_rest<kBlockN, kWidth>(smem_v, size_of(keys), p.head_dim);
    if constexpr (Params::kIsPaged) {
      const bool goes_on = n_block + 1 < n_blocks.end;
      const auto pages = at.pages(rows_of_tile(p.mask.seqlen_k, kBlockN, n_block + goes_on));
      const int place = goes_on ? load_page(pages, log) : 0;
      __syncthreads();  // all have used the pages of this tile
      if (goes_on) keep_page(smem_pages, pages, place);
    } else {
      __syncthreads();
    }
    const bool masked = !all_kept(p.mask, rows, keys);
    log.compute(Op::scores, at.first_head, rows, keys, p.head_dim, Tensor::Q, at.heads);
    if (masked) log.compute(Op::mask, at.first_head, rows, keys, 0, Tensor::Q, at.heads);
    log.compute(Op::online_softmax, at.first_head, rows, keys, 0, Tensor::Q, at.heads);
    log.compute(Op::weighted_sum, at.first_head, rows, dims, size_of(keys), Tensor::Q, at.heads);
    if (works) {
      // 4. S = softmax_scale · Q Kᵀ, and -inf where there is no pair.
      float acc_s[kRows] = {};
      multiply_keys(acc_s, smem_q + warp_row * kPitch, smem_k, kPitch, depth);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        float s = acc_s[r] * p.softmax_scale;
        if (masked || size_of(keys) < kBlockN) {
          const Range kept = kept_keys(p.mask, at.query_of(warp_row + r));
          if (keys.begin + lane < kept.begin || keys.begin + lane >= kept.end) s = -INFINITY;
        }

        // 5. Online softmax, as in rung 05.
        const float new_max = fmaxf(row_max[r], warp_maximum(s)), base = finite_or_zero(new_max);
        const float rescale = exp_of(row_max[r] - base), weight = exp_of(s - base);
        row_max[r] = new_max;
        row_sum[r] = row_sum[r] * rescale + weight;
#pragma unroll
        for (int c = 0; c < kColumns; ++c) acc_o[r][c] *= rescale;
        smem_p[(warp_row + r) * kWeightsPitch + lane] = weight;
      }
      __syncwarp();

      // 6. acc_o += P V.
      add_values<kBlockN>(acc_o, smem_p + warp_row * kWeightsPitch, kWeightsPitch, smem_v, kPitch);
    }
    __syncthreads();  // K and V have been read
  }

  // 7. One division; O takes K's place.
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float sum = warp_total(row_sum[r]), inverse = sum > 0 ? 1 / sum : 0;  // a row that sees no key: O = 0
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
      smem_k[(warp_row + r) * kPitch + lane_column<kColumns>(c)] = acc_o[r][c] * inverse;
    if (lane == 0) smem_lse[warp_row + r] = sum > 0 ? row_max[r] + logf(sum) : -INFINITY;
  }
  __syncthreads();
  log.compute(Op::normalize, at.first_head, rows, dims, 0, Tensor::Q, at.heads);
  log.compute(Op::log_sum_exp, at.first_head, rows, {0, 1}, 0, Tensor::Q, at.heads);
  for (int n = 0; n < at.heads; ++n) store_tile(smem_k + n * at.block_m * kPitch, kPitch, at.o_split(n), log);
  for (int n = 0; n < at.heads; ++n) store_tile(smem_lse + n * at.block_m, 1, at.lse_split(n), log);
}

template <class Params>
const void* instance(int head_dim, bool logged) {
  if (logged)
    return head_dim > 32 && head_dim <= 64 ? reinterpret_cast<const void*>(&split_kv<64, Params, OpLog>) : nullptr;
  switch (fma_width(head_dim)) {
    case 32: return reinterpret_cast<const void*>(&split_kv<32, Params, NoObserver>);
    case 64: return reinterpret_cast<const void*>(&split_kv<64, Params, NoObserver>);
    case 128: return reinterpret_cast<const void*>(&split_kv<128, Params, NoObserver>);
    case 256: return reinterpret_cast<const void*>(&split_kv<256, Params, NoObserver>);
    default: return nullptr;
  }
}

}  // namespace

const void* split_kv_fma_kernel(int head_dim, bool logged, bool is_paged) {
  return is_paged ? instance<PagedParams>(head_dim, logged) : instance<DecodeParams>(head_dim, logged);
}

}  // namespace flashscope::kernels
