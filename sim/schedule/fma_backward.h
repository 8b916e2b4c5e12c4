// What a CTA of a backward kernel occupies: the FMA rungs' 128 threads and SMEM pitches (fma_rungs.h), more tiles.
//
// Offsets are not fixed here yet, only how many tiles of which size there are: no kernel is built. Registers are the
// most that a thread can have, until a compiled kernel says how many it takes.
#pragma once
#include "sim/schedule/fma_rungs.h"

namespace flashscope {

inline constexpr int kBackwardRegisters = 255;

/// Bytes of `query_tiles` tiles of Br rows and `key_tiles` tiles of Bc rows, all head_dim wide, with one Br × Bc place
/// and two statistics a row. One place is enough for P and dS: P goes there for dV, is read, and dS takes its place for
/// dK and dQ; S and dP stay in the registers of the threads that own their elements.
FLASHSCOPE_HD constexpr std::int64_t backward_smem_bytes(int br, int bc, int width, int query_tiles, int key_tiles) {
  return std::int64_t{4} * ((query_tiles * br + key_tiles * bc) * smem_pitch(width) + br * smem_pitch(bc) + 2 * br);
}

}  // namespace flashscope
