// The tiles that the owner of a tile visits, one after the other: key tiles of a query tile or, with the mask transposed,
// query tiles of a key tile.
//
//   for (int n_block = walk.first(); n_block < walk.end(); n_block = walk.next(n_block))
#pragma once
#include "kernels/common/tile.cuh"

namespace flashscope::kernels {

template <class Mask>
class TileWalk;

/// In a band they follow each other.
template <>
class TileWalk<MaskShape> {
 public:
  __device__ TileWalk(const MaskShape& mask, int br, int bc, int i, void*) : m_tiles(visited_tiles(mask, br, bc, i)) {}

  __device__ int begin() const { return m_tiles.begin; }
  __device__ int end() const { return m_tiles.end; }
  __device__ int first() const { return m_tiles.begin; }
  __device__ int next(int tile) const { return tile + 1; }
  /// Whether all pairs of the tile that was found last, rows × keys, are kept: no masking there but of keys past the end.
  __device__ bool is_whole(int, const MaskShape& mask, Range rows, Range keys) const {
    return all_kept(mask, rows, keys);
  }

 private:
  Range m_tiles;
};

/// Of packed sequences and blocks some tiles are left out. any_kept() and all_kept(), which the schedule asks too, take
/// hundreds of instructions and wait for the mask in global memory: a good part of the time of a tile on tensor cores. So
/// a CTA asks them ahead, a tile a thread, and keeps two bits of each in shared memory; its loop reads bits.
///
/// All threads of the CTA must call first() and next() together: these have barriers inside, next() now and then.
/// The bits are those of the window that the tile found last lies in. A kernel has hardly a register to spare for the
/// walk, so that even its end is in shared memory.
template <>
class TileWalk<SparseMask> {
 public:
  struct Smem {
    unsigned visited[kTilesAhead / kWarpSize], whole[kTilesAhead / kWarpSize];
    int end;
  };
  static_assert(sizeof(Smem) <= tile_walk_bytes(true));

  /// `smem`: tile_walk_bytes() of shared memory, the walk's alone.
  __device__ TileWalk(const SparseMask& mask, int br, int bc, int i, void* smem)
      : m_mask(mask), m_br(br), m_bc(bc), m_i(i), m_smem(static_cast<Smem*>(smem)) {}

  __device__ int begin() const { return tiles().begin; }
  /// After first().
  __device__ int end() const { return m_smem->end; }
  __device__ int first() const { return find(tiles().begin, true); }
  /// The one that is visited after a tile that first() or next() has found, or end().
  __device__ int next(int tile) const { return find(tile + 1, false); }
  __device__ bool is_whole(int tile, const SparseMask&, Range, Range) const {
    return m_smem->whole[in_window(tile) / kWarpSize] >> (tile % kWarpSize) & 1;
  }

 private:
  __device__ Range tiles() const { return visited_tiles(m_mask, m_br, m_bc, opaque(m_i)); }
  static __device__ int in_window(int tile) { return tile & (kTilesAhead - 1); }

  __device__ int find(int tile, bool is_first) const {
#pragma unroll 1
    for (;;) {
      const int n = in_window(tile);
      if (is_first || n == 0) ask(tile - n);
      is_first = false;
      if (tile >= m_smem->end) return m_smem->end;
      if (const unsigned left = m_smem->visited[n / kWarpSize] >> (n % kWarpSize))
        return tile + __ffs(static_cast<int>(left)) - 1;
      tile += kWarpSize - n % kWarpSize;
    }
  }

  __device__ void ask(int first) const {
    const int end = tiles().end, thread = opaque(threadIdx.x), lane = thread % kWarpSize;
    const Range rows = rows_of_tile(m_mask.seqlen_q, m_br, opaque(m_i));
    __syncthreads();  // all have read the bits before
#pragma unroll 1
    for (int n = thread - lane; n < kTilesAhead && first + n < end; n += blockDim.x) {
      const int tile = first + n + lane;
      bool visited = false, whole = false;
      if (tile < end) {
        const Range keys = rows_of_tile(m_mask.seqlen_k, m_bc, tile);
        visited = any_kept(m_mask, rows, keys);
        whole = visited && all_kept(m_mask, rows, keys);
      }
      const unsigned visited_bits = __ballot_sync(~0u, visited), whole_bits = __ballot_sync(~0u, whole);
      if (lane == 0) m_smem->visited[n / kWarpSize] = visited_bits, m_smem->whole[n / kWarpSize] = whole_bits;
    }
    if (thread == 0) m_smem->end = end;
    __syncthreads();
  }

  SparseMask m_mask;
  int m_br, m_bc, m_i;
  Smem* m_smem;
};

template <class Mask>
TileWalk(const Mask&, int, int, int, void*) -> TileWalk<Mask>;

}  // namespace flashscope::kernels
