// Tensor cores by warp instructions (sm_80 and later): fragments, how they are read from shared memory, and copies that
// run while the warp goes on. Layouts are those of the PTX manual, "Matrix fragments for mma.m16n8k16".
//
// A warp's product is 16 × 8 (rows × columns), 16 deep. With g = lane / 4 and t = lane % 4:
//   accumulator   c[0], c[1]: row g,     columns 2t, 2t + 1        c[2], c[3]: row g + 8, the same columns
//   A (16 × 16)   four registers of two neighbours along the row: (g, 2t) (g + 8, 2t) (g, 2t + 8) (g + 8, 2t + 8)
//   B (16 × 8)    two registers of two neighbours down the column: (2t, g) (2t + 8, g)
// An accumulator of two neighbouring 16 × 8 products, rounded, is an A of 16 × 16: P never leaves its registers.
#pragma once
#include "kernels/common/tile.cuh"
#include "sim/schedule/tensor_rungs.h"

namespace flashscope::kernels {

struct FragmentA {
  unsigned x[4];
};
struct FragmentB {
  unsigned x[2];
};
struct Accumulator {
  float x[4];
};

/// Rows of an accumulator that a thread holds: g and g + 8.
inline constexpr int kAccumulatorRows = 2;

__device__ __forceinline__ unsigned smem_address(const void* at) {
  return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

// ---- tiles in shared memory -----------------------------------------------------------------------------------------
//
// Rows follow each other without a gap; within a row, chunks of eight elements (16 bytes) are swapped so that one chunk
// of eight consecutive rows lies in eight different groups of four banks: chunk c of a row lies at place c ^ swizzle(row).
// Neither ldmatrix nor a copy then has a bank conflict. (Rows made longer by 16 bytes would do the same for the banks,
// but every other row would start inside a sector, and cp.async fetches a sector twice that it has to write to two: an
// H200 counted 1.5 times the bytes.)

inline constexpr int kChunk = 8;            // elements
inline constexpr unsigned kChunkBytes = 16;
inline constexpr int kSmemAlignment = 128;  // of every tile: addresses are swizzled by exclusive or

template <int kCols>
struct Swizzle {
  static constexpr int kChunks = kCols / kChunk;
  static constexpr int kMask = kChunks < 8 ? kChunks - 1 : 7;
  static constexpr int kRowsALine = kChunks < 8 ? 8 / kChunks : 1;  // of 128 bytes: all banks
  static constexpr unsigned kRowBytes = 2 * kCols;

  static __device__ __forceinline__ int of_row(int row) { return row / kRowsALine & kMask; }
  /// Element at which a chunk starts.
  static __device__ __forceinline__ int chunk(int row, int c) { return row * kCols + (c ^ of_row(row)) * kChunk; }
  static __device__ __forceinline__ int element(int row, int col) { return chunk(row, col / kChunk) + col % kChunk; }

  /// Shared-memory address of chunk `odd` (0 or 1) of a row; step() takes it an even number of chunks further.
  static __device__ __forceinline__ unsigned address(const void* tile, int row, int odd) {
    return smem_address(tile) + row * kRowBytes + (odd ^ of_row(row)) * kChunkBytes;
  }
  static __device__ __forceinline__ unsigned step(unsigned address, int chunks) {
    return (address ^ (chunks & kMask) * kChunkBytes) + (chunks & ~kMask) * kChunkBytes;
  }
};

// ---- ldmatrix: four 8 × 8 matrices at once; lane l names row l % 8 of matrix l / 8 -----------------------------------

/// Where this lane reads A: rows [first_row, first_row + 16), the first two chunks.
template <int kCols>
__device__ __forceinline__ unsigned lane_of_a(const void* tile, int first_row) {
  const int lane = threadIdx.x % kWarpSize;
  return Swizzle<kCols>::address(tile, first_row + lane % 16, lane / 16);
}
/// B of a tile whose rows are B's columns (K in Q Kᵀ): its rows [0, 16), the first two chunks.
template <int kCols>
__device__ __forceinline__ unsigned lane_of_b_transposed(const void* tile) {
  const int lane = threadIdx.x % kWarpSize;
  return Swizzle<kCols>::address(tile, lane % 8 + lane / 16 * 8, lane / 8 % 2);
}
/// B of a row-major tile (V in P V): its rows [0, 16), the first two chunks.
template <int kCols>
__device__ __forceinline__ unsigned lane_of_b(const void* tile) {
  return lane_of_a<kCols>(tile, 0);
}

__device__ __forceinline__ FragmentA load_a(unsigned at) {
  FragmentA a;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a.x[0]), "=r"(a.x[1]), "=r"(a.x[2]), "=r"(a.x[3])
               : "r"(at));
  return a;
}

/// B of two neighbouring products.
__device__ __forceinline__ void load_b_transposed(FragmentB (&b)[2], unsigned at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(b[0].x[0]), "=r"(b[0].x[1]), "=r"(b[1].x[0]), "=r"(b[1].x[1])
               : "r"(at));
}
__device__ __forceinline__ void load_b(FragmentB (&b)[2], unsigned at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(b[0].x[0]), "=r"(b[0].x[1]), "=r"(b[1].x[0]), "=r"(b[1].x[1])
               : "r"(at));
}

// ---- products -------------------------------------------------------------------------------------------------------

template <class T>
__device__ __forceinline__ void multiply_add(Accumulator& c, const FragmentA& a, const FragmentB& b) {
  if constexpr (std::is_same_v<T, __half>)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c.x[0]), "+f"(c.x[1]), "+f"(c.x[2]), "+f"(c.x[3])
                 : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]), "r"(b.x[0]), "r"(b.x[1]));
  else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c.x[0]), "+f"(c.x[1]), "+f"(c.x[2]), "+f"(c.x[3])
                 : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]), "r"(b.x[0]), "r"(b.x[1]));
}

/// acc += A Bᵀ for one warp: 16 · kM rows of A, 8 · kN rows of B, kDepth columns each, from lane_of_a() and
/// lane_of_b_transposed(). Each B that is read serves kM products, each A kN. `a_bytes`, `b_bytes`: from there to another
/// tile, in multiples of kSmemAlignment; where they are constants both tiles share their swizzled addresses.
template <class T, int kDepth, int kM, int kN>
__device__ __forceinline__ void add_product_transposed(Accumulator (&acc)[kM][kN], unsigned a, unsigned b,
                                                       unsigned a_bytes = 0, unsigned b_bytes = 0) {
  using S = Swizzle<kDepth>;
#pragma unroll
  for (int k = 0; k < S::kChunks; k += 2) {
    FragmentA rows[kM];
#pragma unroll
    for (int m = 0; m < kM; ++m) rows[m] = load_a(S::step(a, k) + (16 * m * S::kRowBytes + a_bytes));
#pragma unroll
    for (int n = 0; n < kN; n += 2) {
      FragmentB columns[2];
      load_b_transposed(columns, S::step(b, k) + (8 * n * S::kRowBytes + b_bytes));
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        multiply_add<T>(acc[m][n], rows[m], columns[0]);
        multiply_add<T>(acc[m][n + 1], rows[m], columns[1]);
      }
    }
  }
}

/// acc += A B for one warp, rows [first_row, first_row + 16) of B (8 · kN columns; lane_of_b()): `rows` is A's part of
/// the contraction.
template <class T, int kM, int kN>
__device__ __forceinline__ void add_product(Accumulator (&acc)[kM][kN], const FragmentA (&rows)[kM], unsigned b,
                                            int first_row) {
  using S = Swizzle<8 * kN>;
#pragma unroll
  for (int n = 0; n < kN; n += 2) {
    FragmentB columns[2];
    load_b(columns, S::step(b, n) + first_row * S::kRowBytes);
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      multiply_add<T>(acc[m][n], rows[m], columns[0]);
      multiply_add<T>(acc[m][n + 1], rows[m], columns[1]);
    }
  }
}

template <int kM, int kN>
__device__ __forceinline__ void clear(Accumulator (&acc)[kM][kN]) {
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int n = 0; n < kN; ++n) acc[m][n] = {};
}

/// This thread's first row of a warp's accumulators (then + 8, + 16, …) and its first column (then + 1, + 8, + 9, …).
__device__ __forceinline__ int accumulator_row() { return threadIdx.x % kWarpSize / 4; }
__device__ __forceinline__ int accumulator_col() { return threadIdx.x % 4 * 2; }

/// Two floats rounded into one register, the first in the low half.
template <class T>
__device__ __forceinline__ unsigned rounded_pair(float low, float high) {
  unsigned bits;
  if constexpr (std::is_same_v<T, __half>) {
    const __half2 pair = __floats2half2_rn(low, high);
    memcpy(&bits, &pair, 4);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    memcpy(&bits, &pair, 4);
  }
  return bits;
}

/// Two neighbouring accumulators as the A of the next product.
template <class T>
__device__ __forceinline__ FragmentA as_a(const Accumulator& left, const Accumulator& right) {
  return {{rounded_pair<T>(left.x[0], left.x[1]), rounded_pair<T>(left.x[2], left.x[3]),
           rounded_pair<T>(right.x[0], right.x[1]), rounded_pair<T>(right.x[2], right.x[3])}};
}

// ---- copies that do not wait ----------------------------------------------------------------------------------------

/// Starts to copy 16 bytes from global to shared memory, past L1 and past the registers.
template <class T>
__device__ __forceinline__ void copy_async(T* smem, const T* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(smem_address(smem)), "l"(global) : "memory");
}
/// What was started since the last commit is one group; groups arrive in order.
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most `kLeft` of this thread's groups are under way. A barrier then makes all threads' copies visible.
template <int kLeft>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

/// Starts the copy of a tile into a swizzled one of kRows × kCols in shared memory, each byte once, in the order of
/// load_tile(). Rows that are no multiple of 16 bytes go element by element through registers, and have arrived when this
/// returns. Full width is the fast case: a thread's chunks lie a fixed distance apart, known to the compiler where rows
/// follow each other (kWholeRows: Q, K, V). kFewRegisters: full height too, or the slow case.
template <int kRows, int kCols, bool kWholeRows = true, bool kFewRegisters = false, class T, class Observer>
__device__ __forceinline__ void start_load(T* smem, const GlobalTile<T>& t, Observer& observer) {
  using S = Swizzle<kCols>;
  observer.load(t);
  const T* const source = t.base + t.first();
  const int rows = t.num_rows();
  const int thread = kFewRegisters ? opaque(threadIdx.x) : threadIdx.x;
  if ((!kFewRegisters || rows == kRows) && t.num_cols() == kCols && (kWholeRows || t.row_elements % kChunk == 0)) {
    constexpr int kRowsAtOnce = kMmaThreads / S::kChunks;  // of a CTA with kMmaThreads threads
    static_assert(kRows % kRowsAtOnce == 0);
    const int row = threadIdx.x / S::kChunks, c = threadIdx.x % S::kChunks;
    const int pitch = kWholeRows ? kCols : t.row_elements;
    const T* from = source + row * pitch + c * kChunk;
#pragma unroll
    for (int n = 0; n < kRows; n += kRowsAtOnce, from += kRowsAtOnce * pitch)
      if (kFewRegisters || rows == kRows || row + n < rows) copy_async(smem + S::chunk(row + n, c), from);
  } else if (copies_vectors(t)) {
#pragma unroll 1
    for (TileCursor at(thread * kChunk, blockDim.x * kChunk, t.num_cols()); at.row < rows; at.advance())
      copy_async(smem + S::chunk(at.row, at.col / kChunk), source + (at.row * t.row_elements + at.col));
  } else {
#pragma unroll 1
    for (TileCursor at(thread, blockDim.x, t.num_cols()); at.row < rows; at.advance())
      smem[S::element(at.row, at.col)] = load_cg<T, 1>(source + (at.row * t.row_elements + at.col)).values[0];
  }
}

/// Stores a tile that lies in shared memory in the storage dtype.
template <int kCols, class T, class Observer>
__device__ __forceinline__ void store_rounded(const T* smem, const GlobalTile<T>& t, Observer& observer) {
  using S = Swizzle<kCols>;
  observer.store(t);
  T* const target = t.base + t.first();
  const int rows = t.num_rows();
  if (copies_vectors(t)) {
#pragma unroll 1
    for (TileCursor at(threadIdx.x * kChunk, blockDim.x * kChunk, t.num_cols()); at.row < rows; at.advance())
      store_pack(target + (at.row * t.row_elements + at.col),
                 *reinterpret_cast<const Pack<T, kChunk>*>(&smem[S::chunk(at.row, at.col / kChunk)]));
  } else {
#pragma unroll 1
    for (TileCursor at(threadIdx.x, blockDim.x, t.num_cols()); at.row < rows; at.advance())
      store_pack(target + (at.row * t.row_elements + at.col), Pack<T, 1>{smem[S::element(at.row, at.col)]});
  }
}

/// Zeroes the columns from `cols` on of all kRows rows.
template <int kRows, int kCols, class T>
__device__ __forceinline__ void zero_columns(T* smem, int cols) {
  if (cols == kCols) return;
  for (int n = threadIdx.x; n < kRows * kCols; n += blockDim.x)
    if (n % kCols >= cols) smem[Swizzle<kCols>::element(n / kCols, n % kCols)] = narrow<T>(0.0f);
}
/// Zeroes the rows from `rows` on, in the columns before `cols`. (Never the same element as zero_columns.)
template <int kRows, int kCols, class T>
__device__ __forceinline__ void zero_rows(T* smem, int rows, int cols) {
  if (rows == kRows) return;
  for (int n = threadIdx.x; n < kRows * kCols; n += blockDim.x)
    if (n / kCols >= rows && n % kCols < cols) smem[Swizzle<kCols>::element(n / kCols, n % kCols)] = narrow<T>(0.0f);
}

/// 2^x in one instruction of the special function unit; denormal results are 0.
__device__ __forceinline__ float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Over the four lanes that share a row of an accumulator.
__device__ __forceinline__ float quad_maximum(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
__device__ __forceinline__ float quad_total(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

}  // namespace flashscope::kernels
