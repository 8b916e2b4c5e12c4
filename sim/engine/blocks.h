// Global memory in blocks: each tensor cut into the schedule's tiles and numbered through, so that L2 can name them.
#pragma once
#include <array>
#include <cstdint>

#include "sim/schedule/schedule.h"

namespace flashscope {

class BlockMap {
 public:
  explicit BlockMap(const Schedule& schedule);

  /// Calls f(block, bytes) for every block that the region of a load or store touches.
  template <class F>
  void for_each(const TileOp& op, F f) const {
    const Grid& grid = m_grids[static_cast<std::size_t>(op.tensor)];
    if (op.rows == 0 || op.cols == 0) return;
    for (int r = op.row / grid.block_rows; r <= (op.row + op.rows - 1) / grid.block_rows; ++r)
      for (int c = op.col / grid.block_cols; c <= (op.col + op.cols - 1) / grid.block_cols; ++c) {
        const std::int64_t rows = tile_rows(grid.shape.rows, grid.block_rows, r);
        const std::int64_t cols = tile_rows(grid.shape.cols, grid.block_cols, c);
        f(grid.first + (std::int64_t{op.head} * grid.down + r) * grid.across + c,
          rows * cols * grid.shape.element_bytes);
      }
  }

  Tensor tensor_of(std::int64_t block) const;
  std::int64_t size() const { return m_size; }

 private:
  struct Grid {
    TensorShape shape;
    int block_rows = 1, block_cols = 1;
    std::int64_t first = 0;             // number of the tensor's first block
    std::int64_t down = 0, across = 0;  // blocks of a head
  };
  std::array<Grid, kNumTensors> m_grids;
  std::int64_t m_size = 0;
};

}  // namespace flashscope
