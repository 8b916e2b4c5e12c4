// Rung 08, first kernel: Q, K and V, read once, become e4m3 (08_flash_v3_fp8.cuh has the whole).
//
// A CTA has one tile: as many rows of Q as a query tile, or of K or V as a key tile. All of it waits in registers while
// the CTA finds its largest magnitude, which decides the tile's one scale.
//
//   Q, K   Four lanes share a row. Each row is rotated (fp8_rung.h): signs, then the butterfly of the Hadamard
//          transform, whose steps go between registers of a lane, between lanes, and between registers again. All of it
//          in fp16, two columns an instruction: rounding by 2^-12 a step is nothing beside the 2^-4 that follow, and
//          in float32 this kernel would wait for its instructions instead of for memory.
//   V      Is not rotated: nothing would turn it back. A warp reads pairs of columns; what it rounds goes through
//   shared
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

// ---- pairs
// --------------------------------------------------------------------------------------------------------------

// Two elements of sixteen bits in a register, and instructions that take both.
__device__ __forceinline__ unsigned bits_of(__half2 x) { return *reinterpret_cast<const unsigned*>(&x); }
__device__ __forceinline__ __half2 half2_of(unsigned bits) { return *reinterpret_cast<const __half2*>(&bits); }

template <class T>
struct Pairs;
template <>
struct Pairs<__half> {
  static constexpr unsigned kInfinity = 0x7c00;
  static __device__ __forceinline__ float2 widened(unsigned bits) { return __half22float2(half2_of(bits)); }
  /// Of each half the larger; none where one is none.
  static __device__ __forceinline__ unsigned larger(unsigned a, unsigned b) {
    asm("max.NaN.f16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
    return a;
  }
};
template <>
struct Pairs<__nv_bfloat16> {
  static constexpr unsigned kInfinity = 0x7f80;
  static __device__ __forceinline__ float2 widened(unsigned bits) {
    return {__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000u)};
  }
  static __device__ __forceinline__ unsigned larger(unsigned a, unsigned b) {
    asm("max.NaN.bf16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
    return a;
  }
};
inline constexpr unsigned kMagnitudes = 0x7fff7fff, kSigns = 0x80008000;

/// The float of one of the two: of the upper, or of the larger of two magnitudes.
template <class T>
__device__ __forceinline__ float upper_of(unsigned bits) {
  return Pairs<T>::widened(bits).y;
}
template <class T>
__device__ __forceinline__ float larger_of(unsigned magnitudes) {
  return upper_of<T>(max(magnitudes << 16, magnitudes & 0xffff0000u));
}

/// The largest of what each thread of the CTA has, none of it negative: then bits stand in the order of their floats,
/// and what is no number above all.
__device__ inline float largest_of_cta(float mine, unsigned* scratch) {
  const unsigned of_warp = __reduce_max_sync(~0u, __float_as_uint(mine));
  if (threadIdx.x % kWarpSize == 0) scratch[threadIdx.x / kWarpSize] = of_warp;
  __syncthreads();
  return __uint_as_float(__reduce_max_sync(~0u, scratch[threadIdx.x % (kQuantizeThreads / kWarpSize)]));
}

template <class Observer, class T>
__device__ __forceinline__ void log_tile(const Requantized<T>& tile, Observer& log) {
  log.load(tile.from);
  log.compute(Op::quantize, tile.query_head, tile.to.rows, tile.to.cols, 0, tile.to.tensor);
  log.store(tile.scale);
  log.store(tile.to);
}

// ---- Q and K ------------------------------------------------------------------------------------------------------------

/// What a lane has of a row: of each 32 columns eight, from 8 · lane on, in pairs. As they came, then in fp16.
template <class T, int kWidth>
struct RowPart {
  static constexpr int kLanes = kRotateLanes, kChunks = kWidth / 32, kPairs = 4;
  unsigned x[kChunks][kPairs];
  float unit;  // what 1 stands for; none where the row is no number
  int column;  // of the largest magnitude

  /// largest_of_row(), then rotate_row_in_half(), both of sim/compute/quantize.h; returns the largest magnitude that
  /// this lane has then, in units of 1. `signs`: for each pair of the lane the bits that change.
  __device__ __forceinline__ float rotate(const uint4* signs) {
    constexpr int kLogWidth = kWidth == 64 ? 6 : kWidth == 128 ? 7 : 8;
    const unsigned exponent = find_largest();  // as float32 has it
    // Brings the largest into [64, 128): no sum of all columns leaves fp16.
    const unsigned up = min(127u + 127u + 6u - exponent, 254u);
    unit = exponent < 255 - kLogWidth ? __uint_as_float((254 - up) << 23) : NAN;
    into_half(up);
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const uint4 change = signs[c];
      x[c][0] ^= change.x, x[c][1] ^= change.y, x[c][2] ^= change.z, x[c][3] ^= change.w;
    }
    butterflies();
    __half2 largest = __float2half2_rn(0);
#pragma unroll
    for (int c = 0; c < kChunks; ++c)
#pragma unroll
      for (int n = 0; n < kPairs; ++n) largest = __hmax2(largest, __habs2(half2_of(x[c][n])));
    return fmaxf(__low2float(largest), __high2float(largest)) * unit;
  }

  /// In units of the tile's scale, moved as keep_column() of sim/compute/quantize.h does it.
  __device__ __forceinline__ void scale_and_keep_column(float inverse_scale) {
    const int lane = threadIdx.x % kLanes;
    const __half2 factor = __float2half2_rn(unit * inverse_scale);
    // The signs of the column of the Hadamard matrix, ±1: of the pairs of 32 columns, times that of the 32.
    const auto is_negative = [&](int d) { return __popc(d & column) % 2 != 0; };
    unsigned sign[kPairs], of_chunk[kChunks];
    sign[0] = 0x3c003c00u ^ (column & 1 ? 0x80000000u : 0) ^ (is_negative(8 * lane) ? kSigns : 0);
    sign[1] = sign[0] ^ (column & 2 ? kSigns : 0);
    sign[2] = sign[0] ^ (column & 4 ? kSigns : 0);
    sign[3] = sign[0] ^ sign[1] ^ sign[2];
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      of_chunk[c] = 0x3c003c00u ^ (is_negative(32 * c) ? kSigns : 0);
#pragma unroll
      for (int n = 0; n < kPairs; ++n) x[c][n] = bits_of(__hmul2(half2_of(x[c][n]), factor));
    }
    float t = 0;
    __half2 down = __float2half2_rn(0);  // -t
    const auto moved = [&](int c, int n) {
      return __hfma2(__hmul2(down, half2_of(of_chunk[c])), half2_of(sign[n]), half2_of(x[c][n]));
    };
#pragma unroll
    for (int round = 0; round < kKeepColumnRounds; ++round) {
      __half2 sum{}, here{};
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
#pragma unroll
        for (int n = 0; n < kPairs; ++n) {
          const __half2 from = half2_of(x[c][n]), rounded = through_e4m3(round == 0 ? from : moved(c, n));
          const __half2 error = __hsub2(rounded, from);
          here = n == 0 ? __hmul2(error, half2_of(sign[n])) : __hfma2(error, half2_of(sign[n]), here);
        }
        sum = c == 0 ? here : __hfma2(here, half2_of(of_chunk[c]), sum);  // of the first it is 1
      }
      float total = __low2float(sum) + __high2float(sum);
#pragma unroll
      for (int step = 1; step < kLanes; step *= 2) total += __shfl_xor_sync(~0u, total, step);
      t += total * (1.0f / kWidth);
      down = __float2half2_rn(-t);
    }
#pragma unroll
    for (int c = 0; c < kChunks; ++c)
#pragma unroll
      for (int n = 0; n < kPairs; ++n) x[c][n] = bits_of(moved(c, n));
  }

 private:
  /// Finds `column`; returns the exponent of its element. A magnitude gives up its last bits to say from which pair it
  /// is.
  __device__ __forceinline__ unsigned find_largest() {
    constexpr unsigned kPlace = kWidth / 8 - 1, kBoth = 0x10001;
    unsigned largest = 0;
#pragma unroll
    for (int c = 0; c < kChunks; ++c)
#pragma unroll
      for (int n = 0; n < kPairs; ++n)  // the first of several wins
        largest = Pairs<T>::larger(largest,
                                   (x[c][n] & (kMagnitudes & ~(kPlace * kBoth))) | (kPlace - (kPairs * c + n)) * kBoth);
    const auto with_column = [&](unsigned half, int odd) {
      const int place = static_cast<int>(kPlace - (half & kPlace));
      const int d = place / kPairs * 32 + 8 * static_cast<int>(threadIdx.x % kLanes) + place % kPairs * 2 + odd;
      return (half & ~kPlace) << 16 | static_cast<unsigned>(kWidth - 1 - d);
    };
    unsigned best = max(with_column(largest & 0xffff, 0), with_column(largest >> 16, 1));
#pragma unroll
    for (int step = 1; step < kLanes; step *= 2) best = max(best, __shfl_xor_sync(~0u, best, step));
    column = kWidth - 1 - static_cast<int>(best & 0xffff);
    return __float_as_uint(upper_of<T>(best)) >> 23;
  }

  /// To fp16, times the float that has only the exponent `up`.
  __device__ __forceinline__ void into_half(unsigned up) {
    if constexpr (std::is_same_v<T, __half>) {
      constexpr unsigned kMost = 127 + 15;  // 2^16 is no fp16: rows of very small numbers go up in two steps
      if (__any_sync(~0u, up > kMost)) {
        multiply(__float2half2_rn(up > kMost ? 32768.0f : 1.0f));
        if (up > kMost) up = min(up - 15, kMost);  // the least fp16 needs no more
      }
      multiply(__float2half2_rn(__uint_as_float(up << 23)));
    } else {
      const float factor = __uint_as_float(up << 23);
#pragma unroll
      for (int c = 0; c < kChunks; ++c)
#pragma unroll
        for (int n = 0; n < kPairs; ++n) {
          const float2 pair = Pairs<T>::widened(x[c][n]);
          x[c][n] = bits_of(__floats2half2_rn(pair.x * factor, pair.y * factor));
        }
    }
  }
  __device__ __forceinline__ void multiply(__half2 factor) {
#pragma unroll
    for (int c = 0; c < kChunks; ++c)
#pragma unroll
      for (int n = 0; n < kPairs; ++n) x[c][n] = bits_of(__hmul2(half2_of(x[c][n]), factor));
  }

  /// The Hadamard transform, its steps from the smallest on: within pairs, between pairs, lanes, and 32 columns.
  __device__ __forceinline__ void butterflies() {
    const __half2 plus_minus = __floats2half2_rn(1, -1);
#pragma unroll
    for (int c = 0; c < kChunks; ++c)
#pragma unroll
      for (int n = 0; n < kPairs; ++n) {
        const __half2 pair = half2_of(x[c][n]);
        x[c][n] = bits_of(__hfma2(__high2half2(pair), plus_minus, __low2half2(pair)));
      }
#pragma unroll
    for (int step = 1; step < kPairs; step *= 2)
#pragma unroll
      for (int c = 0; c < kChunks; ++c)
#pragma unroll
        for (int n = 0; n < kPairs; ++n)
          if ((n & step) == 0) butterfly(x[c][n], x[c][n + step]);
#pragma unroll
    for (int step = 1; step < kLanes; step *= 2) {
      const __half2 mine =
          __float2half2_rn(threadIdx.x & step ? -1.0f : 1.0f);  // the upper of two takes the difference
#pragma unroll
      for (int c = 0; c < kChunks; ++c)
#pragma unroll
        for (int n = 0; n < kPairs; ++n)
          x[c][n] = bits_of(__hfma2(mine, half2_of(x[c][n]), half2_of(__shfl_xor_sync(~0u, x[c][n], step))));
    }
#pragma unroll
    for (int step = 1; step < kChunks; step *= 2)
#pragma unroll
      for (int c = 0; c < kChunks; ++c)
#pragma unroll
        for (int n = 0; n < kPairs; ++n)
          if ((c & step) == 0) butterfly(x[c][n], x[c + step][n]);
  }
  static __device__ __forceinline__ void butterfly(unsigned& a, unsigned& b) {
    const __half2 sum = __hadd2(half2_of(a), half2_of(b));
    b = bits_of(__hsub2(half2_of(a), half2_of(b)));
    a = bits_of(sum);
  }
};

template <int kWidth, int kRows, class T, class Observer>
__device__ __forceinline__ void quantize_rotated(const Requantized<T>& tile, unsigned* scratch, unsigned* smem_signs,
                                                 Observer& log) {
  using Part = RowPart<T, kWidth>;
  constexpr int kRowsAtOnce = kQuantizeThreads / Part::kLanes, kParts = kRows / kRowsAtOnce;
  constexpr int kLanePairs = kWidth / 8;  // of a row
  static_assert(kRows % kRowsAtOnce == 0);
  const int lane = threadIdx.x % Part::kLanes, first_row = threadIdx.x / Part::kLanes;
  const int head_dim = tile.from.num_cols(), rows = tile.from.num_rows();
  log_tile(tile, log);

  // 1. The signs of the rotation, lane by lane; all vectors at once.
  if (threadIdx.x < Part::kLanes * kLanePairs) {
    const int of_lane = threadIdx.x / kLanePairs, pair = threadIdx.x % kLanePairs;
    const int d = pair / Part::kPairs * 32 + 8 * of_lane + pair % Part::kPairs * 2;
    smem_signs[threadIdx.x] = (rotation_sign(d) < 0 ? 0x8000u : 0) | (rotation_sign(d + 1) < 0 ? 0x80000000u : 0);
  }
  Part parts[kParts];
  const T* const source = tile.from.base + tile.from.first();
#pragma unroll
  for (int part = 0; part < kParts; ++part)
#pragma unroll
    for (int c = 0; c < Part::kChunks; ++c) {
      const int row = first_row + part * kRowsAtOnce, col = 32 * c + 8 * lane;
      uint4 vector = {0, 0, 0, 0};
      if (row < rows && col < head_dim)
        vector = __ldcg(reinterpret_cast<const uint4*>(source + (row * head_dim + col)));
      unsigned(&x)[Part::kPairs] = parts[part].x[c];
      x[0] = vector.x, x[1] = vector.y, x[2] = vector.z, x[3] = vector.w;
    }
  __syncthreads();

  // 2. Rotated; the largest.
  float largest = 0;
#pragma unroll
  for (int part = 0; part < kParts; ++part)  // a row that is no number has no say: fmaxf takes the other
    largest = fmaxf(largest, parts[part].rotate(reinterpret_cast<const uint4*>(smem_signs + lane * kLanePairs)));

  // 3. Scaled, rounded, stored.
  const float scale = fp8_scale(largest_of_cta(largest, scratch)), inverse = 1 / scale;
  if (threadIdx.x == 0) __stcg(tile.scale.base + tile.scale.first(), scale);
  unsigned char* const target = tile.to.base + tile.to.first();
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    parts[part].scale_and_keep_column(inverse);
#pragma unroll
    for (int c = 0; c < Part::kChunks; ++c) {
      const int row = first_row + part * kRowsAtOnce, col = 32 * c + 8 * lane;
      const unsigned(&x)[Part::kPairs] = parts[part].x[c];
      if (row < rows)
        __stcg(reinterpret_cast<uint2*>(target + (row * kWidth + col)),
               make_uint2(rounded_to_e4m3(half2_of(x[0]), half2_of(x[1])),
                          rounded_to_e4m3(half2_of(x[2]), half2_of(x[3]))));
    }
  }
}

// ---- V ------------------------------------------------------------------------------------------------------------------

template <int kWidth, int kKeys, class T, class Observer>
__device__ __forceinline__ void quantize_transposed(const Requantized<T>& tile, unsigned* scratch, unsigned char* smem,
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
  unsigned pairs[kGroups][16];
  const T* const source = tile.from.base + tile.from.first();
#pragma unroll
  for (int group = 0; group < kGroups; ++group)
#pragma unroll
    for (int n = 0; n < 16; ++n) {
      const int key = 16 * (first_group + group * kKeyWarps) + n;
      pairs[group][n] = 0;
      if (key < keys && col < head_dim)
        pairs[group][n] = __ldcg(reinterpret_cast<const unsigned*>(source + (key * head_dim + col)));
    }

  // 2. The largest. Only a tile that holds an infinity, or what is no number, is gone through once more: infinities
  // would
  //    become 448, so they are made none, and have no say in the scale.
  unsigned magnitudes = 0;
#pragma unroll
  for (int group = 0; group < kGroups; ++group)
#pragma unroll
    for (int n = 0; n < 16; ++n) magnitudes = Pairs<T>::larger(magnitudes, pairs[group][n] & kMagnitudes);
  float largest = largest_of_cta(larger_of<T>(magnitudes), scratch);
  if (!(largest < INFINITY)) {
    magnitudes = 0;
    constexpr unsigned kInfinity = Pairs<T>::kInfinity;
#pragma unroll
    for (int group = 0; group < kGroups; ++group)
#pragma unroll
      for (int n = 0; n < 16; ++n) {
        unsigned& pair = pairs[group][n];
        const unsigned none =
            ((pair & kInfinity) == kInfinity ? 0x7fffu : 0) | ((pair >> 16 & kInfinity) == kInfinity ? 0x7fff0000u : 0);
        magnitudes = Pairs<T>::larger(magnitudes, pair & kMagnitudes & ~none);
        pair |= none;
      }
    __syncthreads();  // scratch has been read
    largest = largest_of_cta(larger_of<T>(magnitudes), scratch);
  }
  const float scale = fp8_scale(largest), inverse = 1 / scale;
  if (threadIdx.x == 0) __stcg(tile.scale.base + tile.scale.first(), scale);

  // 3. Scaled, rounded, each column's keys side by side.
#pragma unroll
  for (int group = 0; group < kGroups; ++group)
#pragma unroll
    for (int x = 0; x < 2; ++x) {
      const auto at = [&](int place) {
        const float2 pair = Pairs<T>::widened(pairs[group][key_at(place)]);
        return (x == 0 ? pair.x : pair.y) * inverse;
      };
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
  unsigned* const scratch = reinterpret_cast<unsigned*>(quantize_bytes + Kernel::kSmem.largest);
  unsigned char* const smem_v = quantize_bytes + Kernel::kSmem.v;
  unsigned* const smem_signs = reinterpret_cast<unsigned*>(smem_v);  // of Q and K

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
        scratch, smem_signs, log);
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
        scratch, smem_signs, log);
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
