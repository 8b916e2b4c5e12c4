// What the tiled FMA rungs are made of: tiles copied between global and shared memory, and the two products of
// attention on register tiles. Tiles in shared memory are float32 whatever the storage dtype is.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>
#include <type_traits>

#include "kernels/common/observer.cuh"
#include "kernels/common/params.h"
#include "sim/schedule/fma_rungs.h"

namespace flashscope::kernels {

// ---- storage dtypes -------------------------------------------------------------------------------------------------

__device__ inline float widen(float x) { return x; }
__device__ inline float widen(__half x) { return __half2float(x); }
__device__ inline float widen(__nv_bfloat16 x) { return __bfloat162float(x); }

template <class T>
__device__ T narrow(float x);
template <>
__device__ inline float narrow<float>(float x) {
  return x;
}
template <>
__device__ inline __half narrow<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline __nv_bfloat16 narrow<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

/// kVec elements as one access: 16 bytes, or a single element.
template <class T, int kVec>
struct alignas(kVec * sizeof(T)) Pack {
  T values[kVec];
};

// ld.global.cg: cached in L2 only. L1 would absorb re-reads that the schedule counts, and it is not coherent with what
// other threads of the CTA have written (flash_v1 reads back O, l, m). The intrinsics are volatile: no load is hoisted
// out of a loop, merged or dropped.
template <class T, int kVec>
__device__ __forceinline__ Pack<T, kVec> load_cg(const T* at) {
  Pack<T, kVec> pack;
  if constexpr (sizeof pack == 16) {
    const uint4 bits = __ldcg(reinterpret_cast<const uint4*>(at));
    memcpy(&pack, &bits, 16);
  } else if constexpr (sizeof pack == 4) {
    const unsigned bits = __ldcg(reinterpret_cast<const unsigned*>(at));
    memcpy(&pack, &bits, 4);
  } else {
    static_assert(sizeof pack == 2);
    const unsigned short bits = __ldcg(reinterpret_cast<const unsigned short*>(at));
    memcpy(&pack, &bits, 2);
  }
  return pack;
}

template <class T, int kVec>
__device__ __forceinline__ void store_pack(T* at, const Pack<T, kVec>& pack) {
  if constexpr (sizeof pack == 16) {
    uint4 bits;
    memcpy(&bits, &pack, 16);
    __stcg(reinterpret_cast<uint4*>(at), bits);
  } else {
    static_assert(kVec == 1);
    __stcg(at, pack.values[0]);
  }
}

__device__ __forceinline__ int size_of(Range range) { return range.end - range.begin; }
__device__ __forceinline__ int round_up(int n, int multiple) { return (n + multiple - 1) / multiple * multiple; }

/// Hides where a value comes from. The compiler would compute addresses and bounds that depend on the thread alone
/// once, before the loop over tiles, and hold dozens of them in registers through it.
__device__ __forceinline__ int opaque(int x) {
  asm volatile("" : "+r"(x));
  return x;
}

// ---- copies ---------------------------------------------------------------------------------------------------------

template <class T>
__device__ __forceinline__ bool copies_vectors(const GlobalTile<T>& t) {
  constexpr std::int64_t e = sizeof(T);
  return copy_width(e * t.first(), e * t.row_elements, e * t.num_cols(), e) == kVectorBytes;
}

/// A thread's place in the row-major walk over a tile: it starts at its own vector and steps by the vectors of the CTA.
/// Two divisions in all, none a vector.
struct TileCursor {
  int row, col;
  int step_rows, step_cols, cols;

  __device__ TileCursor(int first, int step, int cols_)
      : row(first / cols_), col(first % cols_), step_rows(step / cols_), step_cols(step % cols_), cols(cols_) {}
  __device__ void advance() {
    row += step_rows;
    col += step_cols;
    if (col >= cols) col -= cols, ++row;
  }
};

/// Vectors do not cross rows: copy_width() sees to that. Offsets within a tile fit 32 bits: at most 64 rows of 2^24
/// columns.
template <int kVec, class T>
__device__ __forceinline__ void copy_in(float* smem, int pitch, const GlobalTile<T>& t) {
  constexpr int kBatch = 4;  // loads in flight a thread: enough to cover latency, few enough for the registers
  const int rows = t.num_rows();
  const T* const source = t.base + t.first();
  TileCursor from(threadIdx.x * kVec, blockDim.x * kVec, t.num_cols()), to = from;
#pragma unroll 1
  while (to.row < rows) {
    Pack<T, kVec> packs[kBatch];
#pragma unroll
    for (int n = 0; n < kBatch; ++n, from.advance())
      if (from.row < rows) packs[n] = load_cg<T, kVec>(source + (from.row * t.row_elements + from.col));
#pragma unroll
    for (int n = 0; n < kBatch; ++n, to.advance()) {
      if (to.row >= rows) continue;
      float* const target = &smem[to.row * pitch + to.col];
      if constexpr (kVec == 1) {
        *target = widen(packs[n].values[0]);
      } else {
#pragma unroll
        for (int x = 0; x < kVec; x += 4)
          *reinterpret_cast<float4*>(&target[x]) =
              make_float4(widen(packs[n].values[x]), widen(packs[n].values[x + 1]), widen(packs[n].values[x + 2]),
                          widen(packs[n].values[x + 3]));
      }
    }
  }
}

/// Copies a tile to shared memory, once, by all threads of the CTA: consecutive vectors on consecutive lanes, row after
/// row, as count_sectors(Access::copy) counts it. Rows start `pitch` floats apart.
template <class T, class Observer>
__device__ __forceinline__ void load_tile(float* smem, int pitch, const GlobalTile<T>& t, Observer& observer) {
  observer.load(t);
  if (copies_vectors(t))
    copy_in<kVectorBytes / sizeof(T)>(smem, pitch, t);
  else
    copy_in<1>(smem, pitch, t);
}

/// Zeroes what a tile of kRows × kCols does not fill. What lies there is multiplied by zero weights, and 0 · NaN is
/// NaN.
template <int kRows, int kCols>
__device__ __forceinline__ void zero_rest(float* smem, int rows, int cols) {
  if (rows == kRows && cols == kCols) return;
  for (int n = threadIdx.x; n < kRows * kCols; n += blockDim.x)
    if (n / kCols >= rows || n % kCols >= cols) smem[n / kCols * smem_pitch(kCols) + n % kCols] = 0;
}

template <int kVec, class T>
__device__ __forceinline__ void copy_out(const float* smem, int pitch, const GlobalTile<T>& t) {
  const int rows = t.num_rows();
  T* const target = t.base + t.first();
#pragma unroll 1
  for (TileCursor at(threadIdx.x * kVec, blockDim.x * kVec, t.num_cols()); at.row < rows; at.advance()) {
    Pack<T, kVec> pack;
#pragma unroll
    for (int x = 0; x < kVec; ++x) pack.values[x] = narrow<T>(smem[at.row * pitch + at.col + x]);
    store_pack(target + (at.row * t.row_elements + at.col), pack);
  }
}

/// The way back: rounds to the storage dtype and writes with the same rule.
template <class T, class Observer>
__device__ __forceinline__ void store_tile(const float* smem, int pitch, const GlobalTile<T>& t, Observer& observer) {
  observer.store(t);
  if (copies_vectors(t))
    copy_out<kVectorBytes / sizeof(T)>(smem, pitch, t);
  else
    copy_out<1>(smem, pitch, t);
}

// ---- products on the FMA units --------------------------------------------------------------------------------------

__device__ __forceinline__ int thread_row() { return threadIdx.x / kFmaThreadCols; }
__device__ __forceinline__ int thread_col() { return threadIdx.x % kFmaThreadCols; }
/// Row of a tile that accumulator row r of this thread is.
__device__ __forceinline__ int row_of(int r) { return thread_row() + kFmaThreadRows * r; }
/// Key of a tile that column c of a scores accumulator is.
__device__ __forceinline__ int key_of(int c) { return thread_col() + kFmaThreadCols * c; }
/// Head_dim column that column c of an output accumulator of kCols columns is: vectors of up to four neighbours.
template <int kCols>
__device__ __forceinline__ int column_of(int c) {
  constexpr int kVec = kCols < 4 ? kCols : 4;
  return thread_col() * kVec + c % kVec + c / kVec * kVec * kFmaThreadCols;
}

template <int kRows, int kCols>
__device__ __forceinline__ void clear(float (&acc)[kRows][kCols]) {
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int c = 0; c < kCols; ++c) acc[r][c] = 0;
}

/// acc += A Bᵀ: scores. A and B are row-major in SMEM with the contraction along the row, which float4 reads follow:
/// kRows + kCols reads for 4 · kRows · kCols multiply-adds. A warp is two rows of threads, so reads of A are
/// broadcasts.
template <int kRows, int kCols>
__device__ __forceinline__ void add_product_transposed(float (&acc)[kRows][kCols], const float* a, int a_pitch,
                                                       const float* b, int b_pitch, int depth) {
  a += thread_row() * a_pitch;
  b += thread_col() * b_pitch;
#pragma unroll 1  // a second step in flight costs registers, and then spills
  for (int k = 0; k < depth; k += 4) {
    float4 y[kCols];
#pragma unroll
    for (int c = 0; c < kCols; ++c) y[c] = *reinterpret_cast<const float4*>(&b[c * kFmaThreadCols * b_pitch + k]);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float4 x = *reinterpret_cast<const float4*>(&a[r * kFmaThreadRows * a_pitch + k]);
#pragma unroll
      for (int c = 0; c < kCols; ++c) {
        acc[r][c] = fmaf(x.x, y[c].x, acc[r][c]);
        acc[r][c] = fmaf(x.y, y[c].y, acc[r][c]);
        acc[r][c] = fmaf(x.z, y[c].z, acc[r][c]);
        acc[r][c] = fmaf(x.w, y[c].w, acc[r][c]);
      }
    }
  }
}

/// acc += A B: weighted sum. The contraction runs along the rows of A (four at a time) and down the columns of B.
template <int kDepth, int kRows, int kCols>
__device__ __forceinline__ void add_product(float (&acc)[kRows][kCols], const float* a, int a_pitch, const float* b,
                                            int b_pitch) {
  constexpr int kVec = kCols < 4 ? kCols : 4;
  a += thread_row() * a_pitch;
  b += thread_col() * kVec;
#pragma unroll 1
  for (int k = 0; k < kDepth; k += 4) {
    float4 x[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) x[r] = *reinterpret_cast<const float4*>(&a[r * kFmaThreadRows * a_pitch + k]);
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      float y[kCols];
#pragma unroll
      for (int c = 0; c < kCols; c += kVec) {
        const float* const at = &b[(k + step) * b_pitch + c * kFmaThreadCols];
        if constexpr (kVec == 4) {
          const float4 four = *reinterpret_cast<const float4*>(at);
          y[c] = four.x, y[c + 1] = four.y, y[c + 2] = four.z, y[c + 3] = four.w;
        } else {
          static_assert(kVec == 2);
          const float2 two = *reinterpret_cast<const float2*>(at);
          y[c] = two.x, y[c + 1] = two.y;
        }
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const float weight = step == 0 ? x[r].x : step == 1 ? x[r].y : step == 2 ? x[r].z : x[r].w;
#pragma unroll
        for (int c = 0; c < kCols; ++c) acc[r][c] = fmaf(weight, y[c], acc[r][c]);
      }
    }
  }
}

/// Puts an output accumulator into shared memory, from where store_tile() takes it.
template <int kRows, int kCols>
__device__ __forceinline__ void stage_output(float* smem, int pitch, const float (&acc)[kRows][kCols]) {
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int c = 0; c < kCols; ++c) smem[row_of(r) * pitch + column_of<kCols>(c)] = acc[r][c];
}

/// The same for a scores accumulator.
template <int kRows, int kCols>
__device__ __forceinline__ void stage_scores(float* smem, int pitch, const float (&acc)[kRows][kCols]) {
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int c = 0; c < kCols; ++c) smem[row_of(r) * pitch + key_of(c)] = acc[r][c];
}

// ---- rows -----------------------------------------------------------------------------------------------------------

/// S = softmax_scale · S, and -inf where the pair is not kept or the key does not exist. Never a large finite number: a
/// row whose true scores lie below it would come out empty.
template <int kRows, int kCols>
__device__ __forceinline__ void scale_and_mask(float (&acc_s)[kRows][kCols], float softmax_scale, const MaskShape& mask,
                                               int first_row, int first_key, bool any_masked) {
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int c = 0; c < kCols; ++c) acc_s[r][c] *= softmax_scale;
  if (!any_masked) return;
  first_row = opaque(first_row);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const Range kept = kept_keys(mask, first_row + row_of(r));
#pragma unroll
    for (int c = 0; c < kCols; ++c) {
      const int key = first_key + key_of(c);
      if (key < kept.begin || key >= kept.end) acc_s[r][c] = -INFINITY;
    }
  }
}

/// The same for packed sequences and blocks, where what a row sees takes longer to find out: each lane does it for one of
/// the warp's rows, and shuffles hand the bits around.
template <int kRows, int kCols>
__device__ __forceinline__ void scale_and_mask(float (&acc_s)[kRows][kCols], float softmax_scale, const SparseMask& mask,
                                               int first_row, int first_key, bool any_masked) {
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int c = 0; c < kCols; ++c) acc_s[r][c] *= softmax_scale;
  if (!any_masked) return;
  constexpr int kThreadRows = kWarpSize / kFmaThreadCols;  // of the warp's threads: one below the other
  static_assert(kRows * kThreadRows <= kWarpSize && kCols * kFmaThreadCols <= 64);
  const int lane = threadIdx.x % kWarpSize, row = lane % kThreadRows + lane / kThreadRows * kFmaThreadRows;
  const std::uint64_t bits =
      kept_bits(mask, first_row + static_cast<int>(threadIdx.x) / kWarpSize * kThreadRows + row,
                {first_key, first_key + kCols * kFmaThreadCols});
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const std::uint64_t of_row = __shfl_sync(~0u, bits, r * kThreadRows + lane / kFmaThreadCols);
#pragma unroll
    for (int c = 0; c < kCols; ++c)
      if ((of_row >> key_of(c) & 1) == 0) acc_s[r][c] = -INFINITY;
  }
}

/// Over the sixteen lanes that share a row.
__device__ __forceinline__ float row_maximum(float x) {
#pragma unroll
  for (int lanes = kFmaThreadCols / 2; lanes > 0; lanes /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, lanes));
  return x;
}
__device__ __forceinline__ float row_total(float x) {
#pragma unroll
  for (int lanes = kFmaThreadCols / 2; lanes > 0; lanes /= 2) x += __shfl_xor_sync(~0u, x, lanes);
  return x;
}

/// e^x by the hardware's base-2 exponential. Arguments are differences to a maximum: at most 0, and -inf gives 0.
__device__ __forceinline__ float exp_of(float x) { return exp2f(x * 1.44269504f); }

/// A row in which nothing was kept has the maximum -inf; -inf - (-inf) would be NaN, -inf - 0 is what is meant.
__device__ __forceinline__ float finite_or_zero(float row_max) { return row_max == -INFINITY ? 0 : row_max; }

// ---- places ---------------------------------------------------------------------------------------------------------

/// Where a CTA stands in the grid, and from there the tiles it may name.
template <class T>
struct CtaPlace {
  KernelParams p;
  int head;     // batch · heads + head
  int kv_head;  // batch · kv_heads + kv_head
  int inner;    // CTA within the head

  __device__ explicit CtaPlace(const KernelParams& params)
      : p(params), head(blockIdx.x / p.ctas_per_head), inner(blockIdx.x % p.ctas_per_head) {
    kv_head = head / p.heads * p.kv_heads + kv_head_of(head % p.heads, p.heads, p.kv_heads);
  }

  __device__ Range dims() const { return {0, p.head_dim}; }
  __device__ GlobalTile<T> q(Range rows) const { return matrix(Tensor::Q, p.q, head, p.mask.seqlen_q, rows); }
  __device__ GlobalTile<T> k(Range keys) const { return matrix(Tensor::K, p.k, kv_head, p.mask.seqlen_k, keys); }
  __device__ GlobalTile<T> v(Range keys) const { return matrix(Tensor::V, p.v, kv_head, p.mask.seqlen_k, keys); }
  __device__ GlobalTile<T> o(Range rows) const { return matrix(Tensor::O, p.o, head, p.mask.seqlen_q, rows); }
  __device__ GlobalTile<T> scores(Range rows, Range keys) const { return square(Tensor::S, p.s, rows, keys); }
  __device__ GlobalTile<T> probabilities(Range rows, Range keys) const { return square(Tensor::P, p.p, rows, keys); }
  __device__ GlobalTile<float> lse(Range rows) const { return statistic(Tensor::LSE, p.lse, rows); }
  __device__ GlobalTile<float> m(Range rows) const { return statistic(Tensor::M, p.m, rows); }
  __device__ GlobalTile<float> l(Range rows) const { return statistic(Tensor::L, p.l, rows); }

 protected:
  __device__ GlobalTile<T> matrix(Tensor tensor, const void* base, int of_head, int length, Range rows) const {
    return {tensor, static_cast<T*>(const_cast<void*>(base)), of_head, length, p.head_dim, rows, dims()};
  }
  __device__ GlobalTile<T> square(Tensor tensor, void* base, Range rows, Range keys) const {
    return {tensor, static_cast<T*>(base), head, p.mask.seqlen_q, p.score_elements, rows, keys};
  }
  __device__ GlobalTile<float> statistic(Tensor tensor, float* base, Range rows) const {
    return {tensor, base, head, p.mask.seqlen_q, 1, rows, {0, 1}};
  }
};

/// Rows of tile t of a matrix with `length` rows.
__device__ __forceinline__ Range rows_of_tile(int length, int tile, int t) {
  return {t * tile, t * tile + tile_rows(length, tile, t)};
}

/// The tile that the rungs are built with, by compiled width: fma_tile() in sim/schedule/algorithms.cpp.
template <int kWidth>
struct FmaTile {
  static constexpr int kBlockM = kWidth <= 128 ? 64 : 32;
  static constexpr int kBlockN = kWidth <= 64 ? 64 : 32;
  static constexpr int kRows = kBlockM / kFmaThreadRows;  // of S and O a thread
  static constexpr int kKeys = kBlockN / kFmaThreadCols;  // of S
  static constexpr int kCols = kWidth / kFmaThreadCols;   // of O
  static constexpr int kPitch = smem_pitch(kWidth);
  static constexpr int kScoresPitch = smem_pitch(kBlockN);
};

}  // namespace flashscope::kernels
