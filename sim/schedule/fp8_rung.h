// What flash_v3_fp8 (rung 08) does to Q, K and V before it multiplies them, and what its CTAs occupy. Compiled by the
// host for the schedule and the executor and by nvcc for the kernels, like hopper_rungs.h: a rotated and rounded element
// has the same bits on both sides.
//
// e4m3 has four significant bits and the range 2^-9 … 448 (arXiv 2209.05433). Rounding costs each element up to 1/16 of
// itself wherever its block's scale puts it; what hurts attention is one element that is far larger than the others of
// its row: its error, in absolute size, is larger than all they have to say. The cure (FlashAttention-3, arXiv 2407.08608,
// section 3.3, after QuIP, arXiv 2307.13304): rotate the rows of Q and K by the same orthogonal matrix. Q Kᵀ stays, and
// what stood in one column is spread over all of them.
#pragma once
#include <cstring>

#include "sim/schedule/hopper_rungs.h"

namespace flashscope {

// ---- scales -----------------------------------------------------------------------------------------------------------

inline constexpr float kFp8Max = 448;
/// Scales are powers of two: multiplying by them rounds nothing, and numbers of few bits go through unchanged. The least
/// s ≥ 2^-60 with `largest` ≤ 448 s, for the largest finite magnitude of a block.
FLASHSCOPE_HD float fp8_scale(float largest) {
  constexpr std::uint32_t kFraction = 0x7fffff, k448 = 0x600000;  // 448 = 1.75 · 2^8
  std::uint32_t bits;
  memcpy(&bits, &largest, sizeof bits);
  const std::uint32_t exponent = (bits + (kFraction - k448)) >> 23;  // of the next power of two above 1.75 · 2^n
  constexpr std::uint32_t kLeast = 127 - 60;
  bits = (exponent < kLeast + 8 ? kLeast : exponent - 8) << 23;
  float scale;
  memcpy(&scale, &bits, sizeof scale);
  return scale;
}

/// P is at most 1, because a row's maximum is the true one of all keys so far; times 2^8 it is at most 256 and never
/// saturates. Weights below 2^-18 of the largest are lost.
inline constexpr int kFp8WeightExponent = 8;

// ---- rotation ---------------------------------------------------------------------------------------------------------

/// Signs that the columns are multiplied with before the Hadamard transform: without them a row of equal elements would
/// end up in one column. Any fixed pattern without structure does; this one is a hash of the column.
FLASHSCOPE_HD constexpr float rotation_sign(int column) {
  std::uint32_t x = static_cast<std::uint32_t>(column) * 0x9E3779B9u + 0x7F4A7C15u;
  x = (x ^ x >> 16) * 0x85EBCA6Bu;
  x = (x ^ x >> 13) * 0xC2B2AE35u;
  return (x ^ x >> 16) & 1 ? -1.0f : 1.0f;
}

/// x ← H D x over `width` columns, a power of two: D the signs, H the Hadamard matrix of ±1, not divided by √width. The
/// scores come out `width` times too large, which the softmax's scale takes back. Stage by stage, as the kernel does
/// it. `rounded`: what becomes of each sum. The kernel rounds to fp16, two columns an instruction, after bringing the
/// row into the middle of fp16's range (sim/compute/quantize.h).
template <class Real, class Rounded>
void rotate_row(Real* x, int width, const Rounded& rounded) {
  for (int n = 0; n < width; ++n) x[n] *= static_cast<Real>(rotation_sign(n));
  for (int step = 1; step < width; step *= 2)
    for (int n = 0; n < width; ++n)
      if ((n & step) == 0) {
        const Real a = x[n], b = x[n + step];
        x[n] = rounded(a + b);
        x[n + step] = rounded(a - b);
      }
}
template <class Real>
void rotate_row(Real* x, int width) {
  rotate_row(x, width, [](Real sum) { return sum; });
}

/// True where the Hadamard matrix has -1.
FLASHSCOPE_HD constexpr bool is_hadamard_negative(int row, int column) {
  std::uint32_t x = static_cast<std::uint32_t>(row & column);
  x ^= x >> 16, x ^= x >> 8, x ^= x >> 4, x ^= x >> 2, x ^= x >> 1;
  return x & 1;
}

// Outliers once more: where a query and a key have one in the same column, that column decides the score, and an error of
// q or k in its direction is multiplied by the other's outlier. So the rounding of a rotated row y is led to keep that
// direction, the column c of the Hadamard matrix h: what rounding adds along it, t = h · (round(y) - y) / width, is taken
// off beforehand, and y - t h is rounded. A few elements that lie near the middle between two numbers now go the other way;
// the others stay. After two rounds the error in that direction is about half of what it was, at 64 columns two thirds;
// that in all directions together is the same.
inline constexpr int kKeepColumnRounds = 2;
inline constexpr int kRotateLanes = 4;  // that share a row in the kernel: of every 32 columns each has eight

// ---- the order of keys ------------------------------------------------------------------------------------------------

/// wgmma of bytes takes both operands along the depth: V comes transposed, a row a column of head_dim, its keys side by
/// side. P comes from the accumulators of S, where a thread holds keys 2t, 2t + 1, 8 + 2t, 8 + 2t + 1 of sixteen; as A it
/// must hold places 4t … 4t + 3. So the keys of V stand in this order, and P stays in its registers. The key at `place`:
FLASHSCOPE_HD constexpr int key_at(int place) {
  const int t = place % 16 / 4, n = place % 4;
  return place / 16 * 16 + n / 2 * 8 + 2 * t + n % 2;
}

// ---- what the CTAs occupy -----------------------------------------------------------------------------------------------

inline constexpr int kFp8StepDepth = 32;     // of one wgmma
inline constexpr int kFp8KeysOfAtom = 64;    // a row of V's atoms in shared memory, in bytes
inline constexpr int kQuantizeThreads = 256;

/// CTAs of the quantising kernel that belong to one KV head: its query heads' tiles of Q, one head after the other, then
/// the tiles of K, then those of V.
struct QuantizePlan {
  int q_tiles = 0;   // of one query head
  int kv_tiles = 0;
  int group = 1;     // query heads of a KV head
  FLASHSCOPE_HD int ctas() const { return q_tiles == 0 ? 0 : group * q_tiles + 2 * kv_tiles; }
  /// What CTA `inner` does: which query head of the group and which tile, for Q; else which tile.
  struct Part {
    int kind;  // 0: Q, 1: K, 2: V
    int head, tile;
  };
  FLASHSCOPE_HD Part part(int inner) const {
    const int of_q = group * q_tiles;
    if (inner < of_q) return {0, inner / q_tiles, inner % q_tiles};
    return inner - of_q < kv_tiles ? Part{1, 0, inner - of_q} : Part{2, 0, inner - of_q - kv_tiles};
  }
};

/// Bytes of a row of Q's and K's atoms.
FLASHSCOPE_HD constexpr int fp8_atom_bytes(int width) { return width < kAtomRowBytes ? width : kAtomRowBytes; }

/// Those of flash_v3 with tiles of bytes, and behind them the scales of each slot's tiles, and of Q.
struct Fp8Smem : FlashV3Smem {
  int scales = 0;  // three floats a slot; then that of Q
};
FLASHSCOPE_HD constexpr Fp8Smem fp8_smem(int br, int bc, int width, int slots) {
  Fp8Smem at;
  static_cast<FlashV3Smem&>(at) = flash_v3_smem(br, bc, width, slots, 1);
  at.scales = at.tile + 8;
  at.bytes += 12 * slots + 4;
  return at;
}

/// The quantising kernel: the largest magnitude of each warp, and a tile of V on its way to columns. Rows of 16 bytes
/// more than the keys lie in different banks.
struct QuantizeSmem {
  int largest = 0;
  int v = 0, v_pitch = 0;
  int bytes = 0;
};
FLASHSCOPE_HD constexpr QuantizeSmem quantize_smem(int bc, int width) {
  const int largest = 4 * kQuantizeThreads / kWarpSize, pitch = bc + 16;
  return {0, largest, pitch, largest + width * pitch};
}
/// Registers a thread: what the kernel is compiled with.
FLASHSCOPE_HD constexpr int quantize_registers(int width) { return width == 64 ? 64 : width == 128 ? 80 : 128; }

/// Instructions of the compiled kernels: size in the sm_90a cubin by 16 bytes each.
FLASHSCOPE_HD constexpr int quantize_code(int width) { return width == 64 ? 2400 : width == 128 ? 5100 : 5300; }
inline constexpr int kFlashV3Fp8Code = 4600;

}  // namespace flashscope
