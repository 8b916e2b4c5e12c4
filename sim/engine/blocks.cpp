#include "sim/engine/blocks.h"

#include <algorithm>

namespace flashscope {

BlockMap::BlockMap(const Schedule& schedule) {
  for (int t = 0; t < kNumTensors; ++t) {
    const Tensor tensor = static_cast<Tensor>(t);
    Grid& grid = m_grids[static_cast<std::size_t>(t)];
    grid.shape = shape_of(tensor, schedule.problem());
    const bool by_keys = tensor == Tensor::K || tensor == Tensor::V;
    const bool is_scores = tensor == Tensor::S || tensor == Tensor::P;
    grid.block_rows = by_keys ? schedule.tile().bc : schedule.tile().br;
    grid.block_cols = is_scores ? schedule.tile().bc : std::max(1, grid.shape.cols);
    grid.down = num_tiles(grid.shape.rows, grid.block_rows);
    grid.across = num_tiles(grid.shape.cols, grid.block_cols);
    grid.first = m_size;
    const auto& used = schedule.tensors();
    if (std::find(used.begin(), used.end(), tensor) != used.end()) m_size += grid.down * grid.across * grid.shape.heads;
  }
}

Tensor BlockMap::tensor_of(std::int64_t block) const {
  int tensor = kNumTensors - 1;
  // The last that starts at or before the block: a tensor without blocks starts where the next one with some does.
  while (m_grids[static_cast<std::size_t>(tensor)].first > block) --tensor;
  return static_cast<Tensor>(tensor);
}

}  // namespace flashscope
