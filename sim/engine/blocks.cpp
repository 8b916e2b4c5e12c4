#include "sim/engine/blocks.h"

#include <algorithm>

namespace flashscope {

BlockMap::BlockMap(const Schedule& schedule, const ScoreBlocks& scores) {
  for (int t = 0; t < kNumTensors; ++t) {
    const Tensor tensor = static_cast<Tensor>(t);
    Grid& grid = m_grids[static_cast<std::size_t>(t)];
    grid.shape = shape_of(tensor, schedule.problem(), schedule.tile());
    const Layout layout = layout_of(tensor);
    const bool is_scores = layout == Layout::scores;
    const bool in_score_blocks = is_scores || layout == Layout::statistic;
    constexpr int kEntries = kSectorBytes / 4;  // of the block table: what a sector holds
    grid.block_rows = is_scale(layout)                   ? 1
                      : layout == Layout::page           ? kEntries
                      : layout == Layout::by_key         ? schedule.tile().bc
                      : is_scores && scores.has_all_rows ? schedule.tile().br
                      : in_score_blocks                  ? schedule.score_block_rows()
                                                         : schedule.tile().br;
    grid.in_parts_by_rows = is_scores && scores.has_all_rows;
    grid.tiles_across = is_scores ? scores.tiles : 1;
    grid.block_cols = is_scores ? schedule.tile().bc * scores.tiles : std::max(1, grid.shape.cols);
    const int tile_rows = is_scale(layout)           ? 1
                          : layout == Layout::page   ? kEntries
                          : layout == Layout::by_key ? schedule.tile().bc
                                                     : schedule.tile().br;
    grid.blocks_down_a_tile = std::max(1, tile_rows / grid.block_rows);
    grid.down = num_tiles(grid.shape.rows, grid.block_rows);
    grid.across = num_tiles(grid.shape.cols, grid.block_cols);
    grid.whole = grid.shape.rows % grid.block_rows == 0 && grid.shape.cols % grid.block_cols == 0;
    grid.whole_bytes = std::int64_t{grid.block_rows} * grid.block_cols * grid.shape.element_bytes;
    grid.first = m_size;
    const auto& used = schedule.tensors();
    if (std::find(used.begin(), used.end(), tensor) == used.end()) continue;
    m_used.push_back(tensor);
    m_size += grid.down * grid.across * grid.shape.heads;
  }
}

BlockMap::Region BlockMap::region_of(const TileOp& op) const {
  const Grid& grid = m_grids[static_cast<std::size_t>(op.tensor)];
  if (op.rows == 0 || op.cols == 0) return {};
  const int first_row = op.row / grid.block_rows, last_row = (op.row + op.rows - 1) / grid.block_rows;
  const int first_col = op.col / grid.block_cols, last_col = (op.col + op.cols - 1) / grid.block_cols;
  return {grid.first + (std::int64_t{op.head} * grid.down + first_row) * grid.across + first_col,
          last_row - first_row + 1,
          last_col - first_col + 1,
          op.heads,
          grid.across,
          grid.down * grid.across};
}

bool BlockMap::is_whole_across(const TileOp& op) const {
  const Grid& grid = m_grids[static_cast<std::size_t>(op.tensor)];
  const int end = op.col + op.cols;
  return grid.tiles_across == 1 ||
         (op.col % grid.block_cols == 0 && (end % grid.block_cols == 0 || end == grid.shape.cols));
}

bool BlockMap::is_whole_down(const TileOp& op) const {
  const Grid& grid = m_grids[static_cast<std::size_t>(op.tensor)];
  return !grid.in_parts_by_rows || op.rows % grid.block_rows == 0;
}

std::int64_t BlockMap::step_of(Tensor tensor, Axis axis) const {
  const bool by_keys = is_of_keys(layout_of(tensor)), is_scores = layout_of(tensor) == Layout::scores;
  const Grid& grid = m_grids[static_cast<std::size_t>(tensor)];
  const std::int64_t row = grid.across * grid.blocks_down_a_tile;
  if (axis == Axis::i) return by_keys ? 0 : row;
  return by_keys ? row : is_scores ? 1 : 0;
}

std::int64_t BlockMap::bytes_of(Tensor tensor, std::int64_t block) const {
  const Grid& grid = m_grids[static_cast<std::size_t>(tensor)];
  if (grid.whole) return grid.whole_bytes;
  const std::int64_t index = block - grid.first;
  const int c = static_cast<int>(index % grid.across), r = static_cast<int>(index / grid.across % grid.down);
  return std::int64_t{tile_rows(grid.shape.rows, grid.block_rows, r)} * tile_rows(grid.shape.cols, grid.block_cols, c) *
         grid.shape.element_bytes;
}

Tensor BlockMap::tensor_of(std::int64_t block) const {
  std::size_t n = m_used.size() - 1;
  // The last that starts at or before the block: a tensor without blocks starts where the next one with some does.
  while (m_grids[static_cast<std::size_t>(m_used[n])].first > block) --n;
  return m_used[n];
}

}  // namespace flashscope
