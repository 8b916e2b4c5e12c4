// What a CTA of a backward kernel occupies: the FMA rungs' 128 threads and SMEM pitches (fma_rungs.h), more tiles.
#pragma once
#include "sim/schedule/fma_rungs.h"

namespace flashscope {

// ---- flash_v2 -------------------------------------------------------------------------------------------------------

/// Offsets in floats; `floats` is the whole. dK, dV and dQ leave through the places of K and V, which nobody reads
/// then.
struct BackwardSmem {
  int q = 0, d_o = 0, k = 0, v = 0;
  int s = 0;           // P, read and then replaced by dS. S and dP stay in the registers of the threads that own them
  int lse = 0, d = 0;  // row statistics
  int floats = 0;
  FLASHSCOPE_HD constexpr std::int64_t bytes() const { return std::int64_t{4} * floats; }
};

/// P and dS lie with the axis along a row that the product to come adds up over: keys for dQ, queries for dK and dV.
FLASHSCOPE_HD constexpr BackwardSmem flash_v2_backward_smem(int br, int bc, int width, bool by_key) {
  const int q = br * smem_pitch(width), k = bc * smem_pitch(width);
  const int s = by_key ? bc * smem_pitch(br) : br * smem_pitch(bc);
  return {0, q, 2 * q, 2 * q + k, 2 * (q + k), 2 * (q + k) + s, 2 * (q + k) + s + br, 2 * (q + k) + s + 2 * br};
}

/// O and dO, and D on its way out.
struct RowDotSmem {
  int o = 0, d_o = 0, d = 0;
  int floats = 0;
  FLASHSCOPE_HD constexpr std::int64_t bytes() const { return std::int64_t{4} * floats; }
};
FLASHSCOPE_HD constexpr RowDotSmem row_dot_smem(int br, int width) {
  const int o = br * smem_pitch(width);
  return {0, o, 2 * o, 2 * o + br};
}

/// Registers a thread, as in fma_rungs.h. Shared memory leaves room for two CTAs an SM up to width 128, for four at 32.
inline constexpr int kRowDotRegisters = 48;
inline constexpr int kKeyGradientsRegisters = 255;
FLASHSCOPE_HD constexpr int query_gradient_registers(int width) { return width == 32 ? 168 : 255; }

// ---- three_pass, flash_v1: not built yet ----------------------------------------------------------------------------

/// The most that a thread can have, until a compiled kernel says how many it takes.
inline constexpr int kBackwardRegisters = 255;

/// Bytes of `query_tiles` tiles of Br rows and `key_tiles` tiles of Bc rows, all head_dim wide, with one Br × Bc place
/// and two statistics a row.
FLASHSCOPE_HD constexpr std::int64_t backward_smem_bytes(int br, int bc, int width, int query_tiles, int key_tiles) {
  return std::int64_t{4} * ((query_tiles * br + key_tiles * bc) * smem_pitch(width) + br * smem_pitch(bc) + 2 * br);
}

}  // namespace flashscope
