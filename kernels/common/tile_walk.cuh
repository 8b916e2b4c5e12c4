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

  __device__ int end() const { return m_tiles.end; }
  __device__ int first() const { return m_tiles.begin; }
  __device__ int next(int tile) const { return tile + 1; }
  /// Whether all pairs of the tile that was found last, rows × keys, are kept: nothing to mask but keys past the end.
  __device__ bool is_whole(int, const MaskShape& mask, Range rows, Range keys) const {
    return all_kept(mask, rows, keys);
  }

 private:
  Range m_tiles;
};

/// Of packed sequences and blocks some tiles are left out. any_kept() and all_kept(), which the schedule asks too, take
/// hundreds of instructions and wait for the mask in global memory: a good part of the time of a tile on tensor cores. So
/// a CTA asks them ahead, a tile a thread, for a window of kTilesAhead tiles, and keeps a list of those that are visited
/// in shared memory.
///
/// All threads of the CTA must call first(), next() and next_window() together: these have barriers inside.
template <>
class TileWalk<SparseMask> {
 public:
  struct Smem {
    unsigned visited[kTilesAhead / kWarpSize], whole[kTilesAhead / kWarpSize];  // bits
    int list[kTilesAhead + 1];  // 2 · tile, and 1 more where something is masked inside; at its end kEnd or kMore
    int window;                 // first tile of the window
  };
  static_assert(sizeof(Smem) <= tile_walk_bytes(true));

  /// `smem`: tile_walk_bytes() of shared memory, the walk's alone.
  __device__ TileWalk(const SparseMask& mask, int br, int bc, int i, void* smem)
      : m_mask(mask), m_br(br), m_bc(bc), m_i(i), m_smem(static_cast<Smem*>(smem)) {}

  __device__ int end() const { return kNoTile; }
  __device__ int first() {
    ask(visited_tiles(m_mask, m_br, m_bc, m_i).begin);
    m_place = 0;
    m_entry = m_smem->list[0];
    if (m_entry == kMore) return next_window();
    return tile_of(m_entry);
  }
  __device__ int next(int) {
    look_ahead();
    advance();
    if (m_entry == kMore) return next_window();
    return tile_of(m_entry);
  }
  /// Whether all pairs of the tile that was found last are kept.
  __device__ bool is_whole() const { return m_entry % 2 == 0; }
  __device__ bool is_whole(int, const SparseMask&, Range, Range) const { return is_whole(); }

  // next() in steps, for a loop that cannot wait for shared memory: look_ahead() early; from then on ahead() is the
  // tile after this one as far as the window goes. advance() goes on to it, and where is_at_window_end(), next_window()
  // has to be called for it.
  __device__ void look_ahead() { m_ahead = m_smem->list[++m_place]; }
  __device__ int ahead() const { return tile_of(m_ahead); }
  __device__ void advance() { m_entry = m_ahead; }
  __device__ bool is_at_window_end() const { return m_entry == kMore; }
  __device__ int next_window() {
#pragma unroll 1
    do {
      ask(m_smem->window + kTilesAhead);
      m_entry = m_smem->list[0];
    } while (m_entry == kMore);
    m_place = 0;
    return tile_of(m_entry);
  }

 private:
  static constexpr int kNoTile = 0x7fffffff, kEnd = -1, kMore = -2;
  static __device__ int tile_of(int entry) { return entry < 0 ? kNoTile : entry / 2; }

  __device__ void ask(int first) const {
    const int i = opaque(m_i), end = visited_tiles(m_mask, m_br, m_bc, i).end;
    const Range rows = rows_of_tile(m_mask.seqlen_q, m_br, i);
    const int tiles = min_int(kTilesAhead, end - first), thread = opaque(threadIdx.x), lane = thread % kWarpSize;
    __syncthreads();  // all have read the list before
#pragma unroll 1
    for (int n = thread; n - lane < tiles; n += blockDim.x) {
      bool visited = false, whole = false;
      if (n < tiles) {
        const Range keys = rows_of_tile(m_mask.seqlen_k, m_bc, first + n);
        visited = any_kept(m_mask, rows, keys);
        whole = visited && all_kept(m_mask, rows, keys);
      }
      const unsigned visited_bits = __ballot_sync(~0u, visited), whole_bits = __ballot_sync(~0u, whole);
      if (lane == 0) m_smem->visited[n / kWarpSize] = visited_bits, m_smem->whole[n / kWarpSize] = whole_bits;
    }
    __syncthreads();
    // A tile's place in the list is the number of visited ones before it; that of the end is the number of all.
#pragma unroll 1
    for (int n = thread; n <= tiles; n += blockDim.x) {
      const unsigned bit = 1u << lane;
      const bool is_end = n == tiles;
      const unsigned word = n % kWarpSize == 0 && is_end ? 0 : m_smem->visited[n / kWarpSize];
      if (!is_end && (word & bit) == 0) continue;
      int place = __popc(word & (bit - 1));
#pragma unroll 1
      for (int before = 0; before < n / kWarpSize; ++before) place += __popc(m_smem->visited[before]);
      m_smem->list[place] = is_end ? (first + kTilesAhead < end ? kMore : kEnd)
                                   : 2 * (first + n) + ((m_smem->whole[n / kWarpSize] & bit) == 0);
    }
    if (thread == 0) m_smem->window = first;
    __syncthreads();
  }

  SparseMask m_mask;
  int m_br, m_bc, m_i;
  Smem* m_smem;
  int m_place = 0;              // in the list, of what look_ahead() read last
  int m_entry = kEnd, m_ahead = kEnd;
};

template <class Mask>
TileWalk(const Mask&, int, int, int, void*) -> TileWalk<Mask>;

}  // namespace flashscope::kernels
