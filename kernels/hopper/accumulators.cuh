// Where accumulators of wgmma go: into the next product, or to global memory.
#pragma once
#include "kernels/common/mma.cuh"
#include "kernels/hopper/wgmma.cuh"

namespace flashscope::kernels {

/// Rounded, as A of the next product: sixteen keys a row of the array.
template <class T, int kScores>
__device__ __forceinline__ void round_to_a(unsigned (&p)[kScores / 8][4], const float (&acc_s)[kScores]) {
#pragma unroll
  for (int n = 0; n < kScores / 8; ++n)
#pragma unroll
    for (int x = 0; x < 4; ++x) p[n][x] = rounded_pair<T>(acc_s[8 * n + 2 * x], acc_s[8 * n + 2 * x + 1]);
}

/// Which chunk of eight columns a lane stores in place of `chunk`, of a row that starts inside a sector: the next, and the
/// first at last. Then each sector lies in one request, also the one that two rows share.
__device__ __forceinline__ int turned_chunk(int chunk, int num_chunks) { return chunk + 1 == num_chunks ? 0 : chunk + 1; }

template <bool kTurns, class T, int kOutputs>
__device__ __forceinline__ void store_chunks(const float (&acc_o)[kOutputs], const float (&inverse)[kAccumulatorRows],
                                             T* o, int row, int rows_end, int head_dim) {
  constexpr int kChunks = kOutputs / 4;  // that are in registers; the last may lie beyond head_dim
  const int lane = threadIdx.x % 4, num_chunks = head_dim / 8;
#pragma unroll
  for (int half = 0; half < kAccumulatorRows; ++half) {
    T* const to = o + static_cast<std::int64_t>(row + 8 * half) * head_dim;
    const bool turns = kTurns && reinterpret_cast<std::uintptr_t>(to) % kSectorBytes != 0;
#pragma unroll
    for (int d = 0; d < kChunks / 4; ++d) {
      unsigned x[4];
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const int chunk = 4 * d + n, next = chunk + 1 < kChunks ? chunk + 1 : 0;
        float2 pair = {acc_o[4 * chunk + 2 * half], acc_o[4 * chunk + 2 * half + 1]};
        if (turns) pair = {acc_o[4 * next + 2 * half], acc_o[4 * next + 2 * half + 1]};
        if (turns && chunk + 1 == num_chunks) pair = {acc_o[2 * half], acc_o[2 * half + 1]};
        x[n] = rounded_pair<T>(pair.x * inverse[half], pair.y * inverse[half]);
      }
      // A transpose of 4 × 4 words: lane l's word n becomes lane n's word l.
      const bool odd = lane & 1, upper = lane & 2;
      const unsigned a = __shfl_xor_sync(~0u, odd ? x[0] : x[1], 1), b = __shfl_xor_sync(~0u, odd ? x[2] : x[3], 1);
      (odd ? x[0] : x[1]) = a, (odd ? x[2] : x[3]) = b;
      const unsigned c = __shfl_xor_sync(~0u, upper ? x[0] : x[2], 2), e = __shfl_xor_sync(~0u, upper ? x[1] : x[3], 2);
      (upper ? x[0] : x[2]) = c, (upper ? x[1] : x[3]) = e;
      const int chunk = 4 * d + lane, col = 8 * (turns ? turned_chunk(chunk, num_chunks) : chunk);
      if (row + 8 * half < rows_end && chunk < num_chunks)
        __stcg(reinterpret_cast<uint4*>(to + col), make_uint4(x[0], x[1], x[2], x[3]));
    }
  }
}

/// Divided and rounded, straight to global memory. The four lanes of a row exchange what they hold, so that each writes
/// 16 bytes and all together two whole sectors; the eight rows of a request follow each other. Where rows are no whole
/// number of sectors, every other one starts inside one, and its chunks take turns.
template <class T, int kOutputs>
__device__ __forceinline__ void store_output(const float (&acc_o)[kOutputs], const float (&inverse)[kAccumulatorRows],
                                             T* o, int row, int rows_end, int head_dim) {
  if (head_dim % 16 == 0)
    store_chunks<false>(acc_o, inverse, o, row, rows_end, head_dim);
  else
    store_chunks<true>(acc_o, inverse, o, row, rows_end, head_dim);
}

}  // namespace flashscope::kernels
