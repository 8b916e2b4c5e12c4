// The tiles that the owner of a tile visits, one after the other: key tiles of a query tile or, with the mask transposed,
// query tiles of a key tile.
//
//   for (int n_block = walk.begin(); (n_block = walk.seek(n_block)) < walk.end(); ++n_block)
#pragma once
#include "kernels/common/tile.cuh"

namespace flashscope::kernels {

template <class Mask>
class TileWalk;

/// In a band they follow each other.
template <>
class TileWalk<MaskShape> {
 public:
  __device__ TileWalk(const MaskShape& mask, int br, int bc, int i) : m_tiles(visited_tiles(mask, br, bc, i)) {}

  __device__ int begin() const { return m_tiles.begin; }
  __device__ int end() const { return m_tiles.end; }
  /// The first that is visited from `tile` on, or end().
  __device__ int seek(int tile) const { return tile; }

 private:
  Range m_tiles;
};

/// Of packed sequences and blocks some tiles are left out, and those cost nothing but to be asked: any_kept(), which the
/// schedule asks too, of 32 tiles at once, one a lane. Each warp does it by itself: there is no list in memory, and none
/// to wait for. All lanes of a warp must call seek() together.
template <>
class TileWalk<SparseMask> {
 public:
  __device__ TileWalk(const SparseMask& mask, int br, int bc, int i)
      : m_mask(mask),
        m_rows(rows_of_tile(mask.seqlen_q, br, i)),
        m_tiles(visited_tiles(mask, br, bc, i)),
        m_bc(bc),
        m_asked(m_tiles.end) {}

  __device__ int begin() const { return m_tiles.begin; }
  __device__ int end() const { return m_tiles.end; }
  __device__ int seek(int tile) {
#pragma unroll 1
    while (tile < m_tiles.end) {
      if (static_cast<unsigned>(tile - m_asked) >= kWarpSize) ask(tile);
      if (const unsigned left = m_answer >> (tile - m_asked)) return tile + __ffs(static_cast<int>(left)) - 1;
      tile = m_asked + kWarpSize;
    }
    return m_tiles.end;
  }

 private:
  __device__ void ask(int tile) {
    m_asked = tile;
    tile += static_cast<int>(threadIdx.x % kWarpSize);
    m_answer = __ballot_sync(
        ~0u, tile < m_tiles.end && any_kept(m_mask, m_rows, rows_of_tile(m_mask.seqlen_k, m_bc, tile)));
  }

  SparseMask m_mask;
  Range m_rows, m_tiles;
  int m_bc;
  int m_asked;            // first of the tiles that were asked last
  unsigned m_answer = 0;  // of them, those that are visited, as bits
};

template <class Mask>
TileWalk(const Mask&, int, int, int) -> TileWalk<Mask>;

/// The same for kernels without registers to spare: nothing is remembered from one tile to the next, and each is asked for
/// anew. A tile on FMA units takes a hundred times as long.
///
///   for (int n_block = walk.begin(); walk.finds(n_block); ++n_block)
template <class Mask>
class ForgetfulWalk;

template <>
class ForgetfulWalk<MaskShape> {
 public:
  __device__ ForgetfulWalk(const MaskShape& mask, int br, int bc, int i) : m_tiles(visited_tiles(mask, br, bc, i)) {}

  __device__ int begin() const { return m_tiles.begin; }
  /// Goes on to the first that is visited from `tile` on; false: there is none.
  __device__ bool finds(int& tile) const { return tile < m_tiles.end; }

 private:
  Range m_tiles;
};

/// All lanes of a warp must call finds() together.
template <>
class ForgetfulWalk<SparseMask> {
 public:
  __device__ ForgetfulWalk(const SparseMask& mask, int br, int bc, int i) : m_mask(mask), m_br(br), m_bc(bc), m_i(i) {}

  __device__ int begin() const { return visited_tiles(m_mask, m_br, m_bc, m_i).begin; }
  __device__ bool finds(int& tile) const {
    const int i = opaque(m_i);
    const Range rows = rows_of_tile(m_mask.seqlen_q, m_br, i);
    const int end = visited_tiles(m_mask, m_br, m_bc, i).end;
#pragma unroll 1
    for (; tile < end; tile += kWarpSize) {
      const int asked = tile + static_cast<int>(threadIdx.x % kWarpSize);
      const unsigned answer = __ballot_sync(
          ~0u, asked < end && any_kept(m_mask, rows, rows_of_tile(m_mask.seqlen_k, m_bc, asked)));
      if (answer == 0) continue;
      tile += __ffs(static_cast<int>(answer)) - 1;
      return true;
    }
    return false;
  }

 private:
  SparseMask m_mask;
  int m_br, m_bc, m_i;
};

template <class Mask>
ForgetfulWalk(const Mask&, int, int, int) -> ForgetfulWalk<Mask>;

}  // namespace flashscope::kernels
