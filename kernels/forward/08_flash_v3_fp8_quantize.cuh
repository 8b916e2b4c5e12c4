// Rung 08, first kernel: Q, K and V, read once, become e4m3 (08_flash_v3_fp8.cuh has the whole).
//
// A CTA has one tile: as many rows of Q as a query tile, or of K or V as a key tile. All of it waits in registers while
// the CTA finds its largest magnitude, which decides the tile's one scale.
//
//   Q, K   Eight lanes share a row. Each row is rotated (fp8_rung.h): signs, then the butterfly of the Hadamard
//          transform, whose steps go between registers of a lane, between lanes, and between registers again.
//   V      Is not rotated: nothing would turn it back. A warp reads pairs of columns; what it rounds goes through shared
//          memory, so that in global memory a row of the tile is a column of V, its keys in the order of key_at().
#pragma once
#include "kernels/common/mma.cuh"
#include "kernels/hopper/wgmma_fp8.cuh"
#include "sim/schedule/fp8_rung.h"

namespace flashscope::kernels {

struct QuantizeParams : WorkspaceParams {
  QuantizePlan plan;
};

template <class T_, int kWidth_, int kBlockM_, int kBlockN_>
struct Quantize {
  using T = T_;
  static constexpr int kWidth = kWidth_, kBlockM = kBlockM_, kBlockN = kBlockN_;
  static constexpr QuantizeSmem kSmem = quantize_smem(kBlockN, kWidth);
};

/// One of the tiles, as it comes and as it goes. Rows of `to` are those of `from` but for V, whose last tile is filled up.
template <class T>
struct Requantized {
  GlobalTile<const T> from;
  GlobalTile<unsigned char> to;
  GlobalTile<float> scale;
  int query_head;  // of the log: the first that it serves
};

__device__ __forceinline__ bool is_finite(float x) { return fabsf(x) < INFINITY; }

/// The scale of a CTA's tile, from what each thread has seen of it.
__device__ inline float scale_of_tile(float largest, float* scratch) {
  for (int lanes = kWarpSize / 2; lanes > 0; lanes /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, lanes));
  if (threadIdx.x % kWarpSize == 0) scratch[threadIdx.x / kWarpSize] = largest;
  __syncthreads();
  for (int warp = 0; warp < kQuantizeThreads / kWarpSize; ++warp) largest = fmaxf(largest, scratch[warp]);
  return fp8_scale(largest);
}

/// Divided by the scale, as it is rounded. Infinities would become 448: what is no number stays none.
__device__ __forceinline__ float scaled(float x, float inverse) { return is_finite(x) ? x * inverse : NAN; }

template <class Observer, class T>
__device__ __forceinline__ void log_tile(const Requantized<T>& tile, Observer& log) {
  log.load(tile.from);
  log.compute(Op::quantize, tile.query_head, tile.to.rows, tile.to.cols, 0, tile.to.tensor);
  log.store(tile.scale);
  log.store(tile.to);
}

// ---- Q and K ------------------------------------------------------------------------------------------------------------

/// What a lane has of a row: of each 64 columns eight, from 8 · lane on.
template <int kWidth>
struct RowPart {
  static constexpr int kLanes = kRotateLanes, kChunks = kWidth / 64;
  float x[kChunks][8];

  /// H D x: see rotate_row(). `signs`: a bit a column of this lane, set where it changes its sign.
  __device__ __forceinline__ void rotate(const unsigned (&signs)[kChunks]) {
#pragma unroll
    for (int c = 0; c < kChunks; ++c)
#pragma unroll
      for (int n = 0; n < 8; ++n)
        x[c][n] = __uint_as_float(__float_as_uint(x[c][n]) ^ (signs[c] << (31 - n) & 0x80000000u));
#pragma unroll
    for (int step = 1; step < 8; step *= 2)
#pragma unroll
      for (int c = 0; c < kChunks; ++c)
#pragma unroll
        for (int n = 0; n < 8; ++n)
          if ((n & step) == 0) butterfly(x[c][n], x[c][n + step]);
#pragma unroll
    for (int step = 1; step < kLanes; step *= 2) {
      const float mine = threadIdx.x & step ? -1.0f : 1.0f;  // the upper of two takes the difference
#pragma unroll
      for (int c = 0; c < kChunks; ++c)
#pragma unroll
        for (int n = 0; n < 8; ++n) x[c][n] = fmaf(mine, x[c][n], __shfl_xor_sync(~0u, x[c][n], step));
    }
#pragma unroll
    for (int step = 1; step < kChunks; step *= 2)
#pragma unroll
      for (int c = 0; c < kChunks; ++c)
#pragma unroll
        for (int n = 0; n < 8; ++n)
          if ((c & step) == 0) butterfly(x[c][n], x[c + step][n]);
  }

  /// keep_column() of sim/compute/quantize.h, for a row that was divided by its scale.
  __device__ __forceinline__ void keep_column(int column) {
    const int lane = threadIdx.x % kLanes;
    // A bit a column of the lane's first eight: where the Hadamard matrix has -1.
    unsigned negative = (column & 1 ? 0xaau : 0) ^ (column & 2 ? 0xccu : 0) ^ (column & 4 ? 0xf0u : 0);
    if (is_hadamard_negative(8 * lane, column)) negative = ~negative;
    const auto signed_like = [&](float value, int c, int n) {
      const unsigned here = is_hadamard_negative(64 * c, column) ? ~negative : negative;
      return __uint_as_float(__float_as_uint(value) ^ (here << (31 - n) & 0x80000000u));
    };
    float t = 0;
#pragma unroll 1
    for (int round = 0; round < kKeepColumnRounds; ++round) {
      float sum = 0;
#pragma unroll
      for (int c = 0; c < kChunks; ++c)
#pragma unroll
        for (int n = 0; n < 8; n += 2) {
          const float2 rounded = through_e4m3(x[c][n] - signed_like(t, c, n), x[c][n + 1] - signed_like(t, c, n + 1));
          sum += signed_like(rounded.x - x[c][n], c, n);
          sum += signed_like(rounded.y - x[c][n + 1], c, n + 1);
        }
#pragma unroll
      for (int step = 1; step < kLanes; step *= 2) sum += __shfl_xor_sync(~0u, sum, step);
      t += sum * (1.0f / kWidth);
    }
#pragma unroll
    for (int c = 0; c < kChunks; ++c)
#pragma unroll
      for (int n = 0; n < 8; ++n) x[c][n] -= signed_like(t, c, n);
  }

 private:
  static __device__ __forceinline__ void butterfly(float& a, float& b) {
    const float sum = a + b;
    b = a - b;
    a = sum;
  }
};

template <int kWidth, int kRows, class T, class Observer>
__device__ __forceinline__ void quantize_rotated(const Requantized<T>& tile, float* scratch, unsigned char* smem_columns,
                                                 Observer& log) {
  using Part = RowPart<kWidth>;
  constexpr int kRowsAtOnce = kQuantizeThreads / Part::kLanes, kParts = kRows / kRowsAtOnce;
  static_assert(kRows % kRowsAtOnce == 0);
  const int lane = threadIdx.x % Part::kLanes, first_row = threadIdx.x / Part::kLanes;
  const int head_dim = tile.from.num_cols(), rows = tile.from.num_rows();
  log_tile(tile, log);

  // 1. All vectors at once.
  Pack<T, 8> packs[kParts][Part::kChunks];
  const T* const source = tile.from.base + tile.from.first();
#pragma unroll
  for (int part = 0; part < kParts; ++part)
#pragma unroll
    for (int c = 0; c < Part::kChunks; ++c) {
      const int row = first_row + part * kRowsAtOnce, col = 64 * c + 8 * lane;
      packs[part][c] = {};
      if (row < rows && col < head_dim) packs[part][c] = load_cg<T, 8>(source + (row * head_dim + col));
    }

  // 2. Rotated; the largest. Of each row the largest column, too: its magnitude's bits stand above how far it is from the
  //    last, so that the first of several wins. It waits in shared memory: there is no register to spare.
  static_assert(kWidth <= 256);
  unsigned signs[Part::kChunks];
#pragma unroll
  for (int c = 0; c < Part::kChunks; ++c) {
    signs[c] = 0;
#pragma unroll
    for (int n = 0; n < 8; ++n) signs[c] |= (rotation_sign(64 * c + 8 * lane + n) < 0) << n;
  }
  Part parts[kParts];
  float largest = 0;
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    unsigned column = 0;
#pragma unroll
    for (int c = 0; c < Part::kChunks; ++c)
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        const unsigned magnitude = *reinterpret_cast<const unsigned short*>(&packs[part][c].values[n]) & 0x7fffu;
        column = max(column, magnitude << 16 | (kWidth - 1 - (64 * c + 8 * lane + n)));
      }
#pragma unroll
    for (int step = 1; step < Part::kLanes; step *= 2) column = max(column, __shfl_xor_sync(~0u, column, step));
    if (lane == 0) smem_columns[first_row + part * kRowsAtOnce] = static_cast<unsigned char>(kWidth - 1 - (column & 0xffff));
#pragma unroll
    for (int c = 0; c < Part::kChunks; ++c)
#pragma unroll
      for (int n = 0; n < 8; ++n) parts[part].x[c][n] = widen(packs[part][c].values[n]);
    parts[part].rotate(signs);
#pragma unroll
    for (int c = 0; c < Part::kChunks; ++c)
#pragma unroll
      for (int n = 0; n < 8; ++n)
        largest = is_finite(parts[part].x[c][n]) ? fmaxf(largest, fabsf(parts[part].x[c][n])) : largest;
  }

  // 3. Scaled, rounded, stored.
  const float scale = scale_of_tile(largest, scratch), inverse = 1 / scale;
  if (threadIdx.x == 0) __stcg(tile.scale.base + tile.scale.first(), scale);
  unsigned char* const target = tile.to.base + tile.to.first();
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
#pragma unroll
    for (int c = 0; c < Part::kChunks; ++c)
#pragma unroll
      for (int n = 0; n < 8; ++n) parts[part].x[c][n] = scaled(parts[part].x[c][n], inverse);
    parts[part].keep_column(smem_columns[first_row + part * kRowsAtOnce]);  // scale_of_tile() has a barrier
#pragma unroll
    for (int c = 0; c < Part::kChunks; ++c) {
      const int row = first_row + part * kRowsAtOnce, col = 64 * c + 8 * lane;
      const float(&x)[8] = parts[part].x[c];
      if (row < rows)
        __stcg(reinterpret_cast<uint2*>(target + (row * kWidth + col)),
               make_uint2(rounded_to_e4m3(x[0], x[1], x[2], x[3]), rounded_to_e4m3(x[4], x[5], x[6], x[7])));
    }
  }
}

// ---- V ------------------------------------------------------------------------------------------------------------------

template <int kWidth, int kKeys, class T, class Observer>
__device__ __forceinline__ void quantize_transposed(const Requantized<T>& tile, float* scratch, unsigned char* smem,
                                                    Observer& log) {
  constexpr int kPitch = quantize_smem(kKeys, kWidth).v_pitch;
  constexpr int kColumnWarps = kWidth / 64, kKeyWarps = kQuantizeThreads / kWarpSize / kColumnWarps;
  constexpr int kGroups = kKeys / 16 / kKeyWarps;  // of sixteen keys
  static_assert(kGroups * kKeyWarps * 16 == kKeys);
  const int warp = threadIdx.x / kWarpSize, lane = threadIdx.x % kWarpSize;
  const int col = warp % kColumnWarps * 64 + 2 * lane, first_group = warp / kColumnWarps;
  const int head_dim = tile.from.num_cols(), keys = tile.from.num_rows();
  log_tile(tile, log);

  // 1. Two columns of each key.
  Pack<T, 2> pairs[kGroups][16];
  const T* const source = tile.from.base + tile.from.first();
#pragma unroll
  for (int group = 0; group < kGroups; ++group)
#pragma unroll
    for (int n = 0; n < 16; ++n) {
      const int key = 16 * (first_group + group * kKeyWarps) + n;
      pairs[group][n] = {};
      if (key < keys && col < head_dim) pairs[group][n] = load_cg<T, 2>(source + (key * head_dim + col));
    }

  // 2. The largest.
  float largest = 0;
#pragma unroll
  for (int group = 0; group < kGroups; ++group)
#pragma unroll
    for (int n = 0; n < 16; ++n)
#pragma unroll
      for (int x = 0; x < 2; ++x) {
        const float value = fabsf(widen(pairs[group][n].values[x]));
        largest = is_finite(value) ? fmaxf(largest, value) : largest;
      }
  const float scale = scale_of_tile(largest, scratch), inverse = 1 / scale;
  if (threadIdx.x == 0) __stcg(tile.scale.base + tile.scale.first(), scale);

  // 3. Scaled, rounded, each column's keys side by side.
#pragma unroll
  for (int group = 0; group < kGroups; ++group)
#pragma unroll
    for (int x = 0; x < 2; ++x) {
      const auto at = [&](int place) { return scaled(widen(pairs[group][key_at(place)].values[x]), inverse); };
      unsigned words[4];
#pragma unroll
      for (int n = 0; n < 4; ++n) words[n] = rounded_to_e4m3(at(4 * n), at(4 * n + 1), at(4 * n + 2), at(4 * n + 3));
      *reinterpret_cast<uint4*>(smem + (col + x) * kPitch + 16 * (first_group + group * kKeyWarps)) =
          make_uint4(words[0], words[1], words[2], words[3]);
    }
  __syncthreads();

  // 4. The tile, from one end to the other.
  unsigned char* const target = tile.to.base + tile.to.first();
  for (int n = threadIdx.x; n < kWidth * kKeys / 16; n += kQuantizeThreads)
    __stcg(reinterpret_cast<uint4*>(target) + n,
           *reinterpret_cast<const uint4*>(smem + n / (kKeys / 16) * kPitch + n % (kKeys / 16) * 16));
}

// ---- the kernel -----------------------------------------------------------------------------------------------------------

template <class Kernel, class Observer>
__global__ void __launch_bounds__(kQuantizeThreads) __maxnreg__(bound<Observer>(quantize_registers(Kernel::kWidth)))
    flash_v3_fp8_quantize(const __grid_constant__ QuantizeParams p, Observer log) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using T = typename Kernel::T;
  constexpr int kBlockM = Kernel::kBlockM, kBlockN = Kernel::kBlockN, kWidth = Kernel::kWidth;
  extern __shared__ __align__(16) unsigned char quantize_bytes[];
  float* const scratch = reinterpret_cast<float*>(quantize_bytes + Kernel::kSmem.largest);
  unsigned char* const smem_v = quantize_bytes + Kernel::kSmem.v;  // or of Q and K the largest column of each row

  const int kv_head = static_cast<int>(blockIdx.x) / p.plan.ctas();
  const QuantizePlan::Part part = p.plan.part(static_cast<int>(blockIdx.x) % p.plan.ctas());
  const int first_head = kv_head * p.plan.group, tile = part.tile;
  if (part.kind == 0) {
    const int head = first_head + part.head, seqlen = p.mask.seqlen_q;
    const Range rows = {tile * kBlockM, tile * kBlockM + tile_rows(seqlen, kBlockM, tile)};
    quantize_rotated<kWidth, kBlockM>(
        Requantized<T>{{Tensor::Q, static_cast<const T*>(p.q), head, seqlen, p.head_dim, rows, {0, p.head_dim}},
                       {Tensor::Q_fp8, p.q_fp8, head, seqlen, kWidth, rows, {0, kWidth}},
                       {Tensor::Q_scale, p.q_scale, head, p.plan.q_tiles, 1, {tile, tile + 1}, {0, 1}},
                       head},
        scratch, smem_v, log);
    return;
  }
  const int seqlen = p.mask.seqlen_k, tiles = p.plan.kv_tiles;
  const Range rows = {tile * kBlockN, tile * kBlockN + tile_rows(seqlen, kBlockN, tile)};
  if (part.kind == 1)
    quantize_rotated<kWidth, kBlockN>(
        Requantized<T>{{Tensor::K, static_cast<const T*>(p.k), kv_head, seqlen, p.head_dim, rows, {0, p.head_dim}},
                       {Tensor::K_fp8, p.k_fp8, kv_head, seqlen, kWidth, rows, {0, kWidth}},
                       {Tensor::K_scale, p.k_scale, kv_head, tiles, 1, {tile, tile + 1}, {0, 1}},
                       first_head},
        scratch, smem_v, log);
  else
    quantize_transposed<kWidth, kBlockN>(
        Requantized<T>{{Tensor::V, static_cast<const T*>(p.v), kv_head, seqlen, p.head_dim, rows, {0, p.head_dim}},
                       {Tensor::V_fp8, p.v_fp8, kv_head, tiles * kBlockN, kWidth,
                        {tile * kBlockN, (tile + 1) * kBlockN}, {0, kWidth}},
                       {Tensor::V_scale, p.v_scale, kv_head, tiles, 1, {tile, tile + 1}, {0, 1}},
                       first_head},
        scratch, smem_v, log);
#endif
}

}  // namespace flashscope::kernels
