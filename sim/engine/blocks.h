// Global memory in blocks: each tensor cut into the schedule's tiles (row statistics into their
// score_block_rows, S and P into those or larger blocks: grain.h) and numbered through, so that L2 can name them.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "sim/engine/grain.h"
#include "sim/schedule/schedule.h"

namespace flashscope {

class BlockMap {
 public:
  explicit BlockMap(const Schedule& schedule, const ScoreBlocks& scores = {});

  /// The blocks that the region of a load or store touches: in each of its heads, `down` rows of `across` neighbours.
  struct Region {
    std::int64_t first = 0;
    int down = 0, across = 0, heads = 0;
    std::int64_t row_step = 0, head_step = 0;  // from one row of blocks, and from one head, to the next

    int size() const { return heads * down * across; }
    /// f(block) for each, `shift` further on.
    template <class F>
    void for_each(std::int64_t shift, F f) const {
      for (int head = 0; head < heads; ++head)
        for (int r = 0; r < down; ++r)
          for (int c = 0; c < across; ++c) f(first + shift + head * head_step + r * row_step + c);
    }
  };
  Region region_of(const TileOp& op) const;
  /// True when the columns of the region end where its blocks do; and when its rows do.
  bool is_whole_across(const TileOp& op) const;
  bool is_whole_down(const TileOp& op) const;
  int block_rows(Tensor tensor) const { return m_grids[static_cast<std::size_t>(tensor)].block_rows; }
  /// How far a region moves when its operation moves one tile along `axis`: blocks; along a row of scores tiles, of which
  /// tiles_across() are one block.
  std::int64_t step_of(Tensor tensor, Axis axis) const;
  int tiles_across(Tensor tensor) const { return m_grids[static_cast<std::size_t>(tensor)].tiles_across; }
  /// How far it moves from one head of the tensor to the next.
  std::int64_t head_step_of(Tensor tensor) const {
    const Grid& grid = m_grids[static_cast<std::size_t>(tensor)];
    return grid.down * grid.across;
  }
  /// Bytes of a block: fewer at the lower and right edge of its tensor.
  std::int64_t bytes_of(Tensor tensor, std::int64_t block) const;

  Tensor tensor_of(std::int64_t block) const;
  std::int64_t size() const { return m_size; }

 private:
  struct Grid {
    TensorShape shape;
    int block_rows = 1, block_cols = 1;
    int tiles_across = 1;        // key tiles that a block of scores is wide
    bool in_parts_by_rows = false;  // higher than the rows that are moved as wholes
    int blocks_down_a_tile = 1;  // scores and statistics are kept in lower blocks than the tiles that are walked
    bool whole = true;  // no block is cut by an edge
    std::int64_t whole_bytes = 0;
    std::int64_t first = 0;             // number of the tensor's first block
    std::int64_t down = 0, across = 0;  // blocks of a head
  };
  std::array<Grid, kNumTensors> m_grids;
  std::vector<Tensor> m_used;  // of the schedule, in the order of their numbers
  std::int64_t m_size = 0;
};

}  // namespace flashscope
