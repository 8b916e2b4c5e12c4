// What a CTA of the Hopper rungs (07) occupies, and the order in which CTAs take query tiles (flash_v3.h has the tile).
// Compiled by the host for the schedules and by nvcc for the kernels, like tensor_rungs.h.
#pragma once
#include <cstdint>

#include "sim/schedule/fma_rungs.h"

namespace flashscope {

inline constexpr int kWarpgroupThreads = 128;
inline constexpr int kWarpgroupRows = 64;      // of a product: what one wgmma multiplies
inline constexpr int kAtomColumns = 64;        // of a tile's piece in shared memory, elements of two bytes
inline constexpr int kAtomRowBytes = 128;      // a box of TMA is as wide
inline constexpr int kAtomAlignment = 1024;    // the swizzle follows address bits: eight rows of 128 bytes
inline constexpr int kTmaRowBytes = 16;        // TMA: rows start at multiples of this
inline constexpr int kFlashV3Slots = 2;        // of the rings of K and V

/// Widths that are compiled; the columns beyond head_dim come as zeros.
FLASHSCOPE_HD constexpr int hopper_width(int head_dim) { return head_dim <= 64 ? 64 : fma_width(head_dim); }

/// Warpgroups that compute: one for every 64 rows of the query tile. One more loads.
FLASHSCOPE_HD constexpr int flash_v3_consumers(int br) { return (br + kWarpgroupRows - 1) / kWarpgroupRows; }
FLASHSCOPE_HD constexpr int flash_v3_threads(int br) { return (1 + flash_v3_consumers(br)) * kWarpgroupThreads; }

/// Registers a thread when the CTA starts: what all threads can have alike, a multiple of 8, for one CTA an SM. The
/// warpgroup that loads then gives most of its own to those that compute.
FLASHSCOPE_HD constexpr int flash_v3_registers(int br) {
  const int even = 65536 / flash_v3_threads(br) / 8 * 8;
  return even < 255 ? even : 248;
}

/// Shared memory, in bytes from an aligned start.
struct FlashV3Smem {
  int q = 0, k = 0, v = 0;  // Q; then `slots` tiles of K, and of V
  int kv_bytes = 0;         // of one of these
  int barriers = 0;         // eight bytes each
  int tile = 0;             // the number of the query tile that is computed
  int bytes = 0;            // and room to align the start
};
inline constexpr int kFlashV3QBarriers = 2, kFlashV3SlotBarriers = 4;  // full and empty: of Q; of K and V, a slot
FLASHSCOPE_HD constexpr FlashV3Smem flash_v3_smem(int br, int bc, int width, int slots, int element = 2) {
  FlashV3Smem at;
  at.k = element * br * width;
  at.kv_bytes = element * bc * width;
  at.v = at.k + slots * at.kv_bytes;
  at.barriers = at.v + slots * at.kv_bytes;
  at.tile = at.barriers + 8 * (kFlashV3QBarriers + kFlashV3SlotBarriers * slots);
  at.bytes = at.tile + 8 + kAtomAlignment;
  return at;
}

/// A query tile of one head.
struct QueryTile {
  int head = 0, i = 0;
};
/// The n-th query tile that is taken. Heads go in groups whose K and V stay in L2 while all their query tiles pass;
/// within a group the last tiles of all heads come first, because under a causal mask these see most keys, and what is
/// taken last should be short.
FLASHSCOPE_HD QueryTile query_tile_taken(int n, int all_heads, int tiles_a_head, int heads_at_once) {
  const int group = n / (heads_at_once * tiles_a_head), first_head = group * heads_at_once;
  const int heads = min_int(heads_at_once, all_heads - first_head);
  const int in_group = n - first_head * tiles_a_head;
  return {first_head + in_group % heads, tiles_a_head - 1 - in_group / heads};
}

/// Instructions of the compiled kernel: an estimate, not read from a cubin.
inline constexpr int kFlashV3Code = 4000;

}  // namespace flashscope
