// What a CTA holds on chip, and the global memory it loads from. Both know which elements they hold, so that a schedule
// that uses what it never loaded is caught instead of computing with leftovers.
#pragma once
#include <array>
#include <deque>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "sim/compute/rounding.h"
#include "sim/error.h"
#include "sim/schedule/schedule.h"

namespace flashscope {

/// A rectangle of a tensor. Elements are named by their row and column in the whole tensor.
template <class Real>
class Tile {
 public:
  void reset(Range rows, Range cols, Real fill) {
    m_rows = rows;
    m_cols = cols;
    m_values.assign(static_cast<std::size_t>(rows.end - rows.begin) * (cols.end - cols.begin), fill);
  }
  bool holds(Range rows, Range cols) const {
    return m_rows.begin <= rows.begin && rows.end <= m_rows.end && m_cols.begin <= cols.begin && cols.end <= m_cols.end;
  }
  Range cols() const { return m_cols; }
  /// Row of the tensor; index the result with column - cols().begin.
  Real* row(int row) { return m_values.data() + static_cast<std::size_t>(row - m_rows.begin) * width(); }
  Real& at(int row_index, int col) { return row(row_index)[col - m_cols.begin]; }

 private:
  int width() const { return m_cols.end - m_cols.begin; }

  Range m_rows, m_cols;
  std::vector<Real> m_values;
};

/// The on-chip state of a CTA, as op.h names it. Scores and probabilities share one place, because a softmax turns one
/// into the other; so do acc and O, because normalize does, dP and dS, because d_scores does, and dQ and its sum over CTAs. Of a tensor that goes
/// by query, every head has places of its own.
template <class Real>
class Chip {
 public:
  /// What follows is of this head: a query head, or of a split's tensor, one of its own.
  void select(int head) { m_head = head; }

  Tile<Real>& place(Tensor tensor) { return place(tensor, m_head); }
  Tile<Real>& place(Tensor tensor, int head) {
    return m_places[static_cast<std::size_t>(home(tensor))][is_of_keys(layout_of(tensor)) ? 0 : head];
  }

  /// Where a loaded tile goes. With a ring of `slots` (TileShape::stages) the tiles loaded before it stay on chip too.
  Tile<Real>& next(Tensor tensor, int slots) {
    Tile<Real>& tile = place(tensor);
    if (slots > 1) {
      std::deque<Tile<Real>>& before = m_rings[static_cast<std::size_t>(home(tensor))][m_head];
      before.push_front(std::move(tile));
      if (before.size() >= static_cast<std::size_t>(slots)) before.pop_back();
      tile = {};
    }
    return tile;
  }

  /// The place of a tensor, or of its ring, which must hold the region. Throws Error(internal) naming the operation when it does not.
  Tile<Real>& need(const TileOp& op, Tensor tensor, Range rows, Range cols) {
    return need(op, tensor, m_head, rows, cols);
  }
  Tile<Real>& need(const TileOp& op, Tensor tensor, int head, Range rows, Range cols) {
    Tile<Real>& tile = place(tensor, head);
    if (tile.holds(rows, cols)) return tile;
    for (Tile<Real>& before : m_rings[static_cast<std::size_t>(home(tensor))][head])
      if (before.holds(rows, cols)) return before;
    throw Error(ErrorKind::internal, std::string(name_of(op.op)) + " of tile (" + std::to_string(op.i) + ", " +
                                           std::to_string(op.j) + ") uses rows " + text(rows) + ", columns " +
                                           text(cols) + " of " + name_of(tensor) + ", which are not on chip");
  }

 private:
  static Tensor home(Tensor tensor) {
    switch (tensor) {
      case Tensor::P: return Tensor::S;
      case Tensor::dS: return Tensor::dP;
      case Tensor::dQ_sum: return Tensor::dQ;
      default: return tensor;
    }
  }
  static std::string text(Range range) {
    return "[" + std::to_string(range.begin) + ", " + std::to_string(range.end) + ")";
  }

  int m_head = 0;
  std::array<std::map<int, Tile<Real>>, kNumTensors> m_places;             // by head
  std::array<std::map<int, std::deque<Tile<Real>>>, kNumTensors> m_rings;  // likewise, the newest first
};

/// Global memory: the tensors of a schedule, NaN until written. Values are what their storage format can hold.
template <class Real>
class GlobalMemory {
 public:
  explicit GlobalMemory(const Schedule& schedule) : m_dtype(schedule.problem().dtype) {
    for (Tensor tensor : schedule.tensors()) {
      const TensorShape shape = shape_of(tensor, schedule.problem(), schedule.tile());
      m_shapes[index(tensor)] = shape;
      m_values[index(tensor)].assign(static_cast<std::size_t>(shape.rows + shape.spare_rows) * shape.cols * shape.heads,
                                     std::numeric_limits<Real>::quiet_NaN());
    }
  }

  /// Of K and V in pages, rows of all pages are those of head 0; otherwise each head's own.
  void load(Tensor tensor, int head, Range rows, Range cols, Tile<Real>& into) {
    into.reset(rows, cols, 0);
    for (int row = rows.begin; row < rows.end; ++row)
      for (int col = cols.begin; col < cols.end; ++col) into.at(row, col) = at(tensor, head, row, col);
  }
  /// The same of rows that lie anywhere: row r is taken from `place(r)`.
  template <class Place>
  void load_from(Tensor tensor, Range rows, Range cols, Place place, Tile<Real>& into) {
    into.reset(rows, cols, 0);
    for (int row = rows.begin; row < rows.end; ++row)
      for (int col = cols.begin; col < cols.end; ++col) into.at(row, col) = at(tensor, 0, place(row), col);
  }
  void store(Tensor tensor, int head, Range rows, Range cols, Tile<Real>& from) {
    for (int row = rows.begin; row < rows.end; ++row)
      for (int col = cols.begin; col < cols.end; ++col) write(tensor, head, row, col, from.at(row, col));
  }
  /// Adds the tile to what is there.
  void add(Tensor tensor, int head, Range rows, Range cols, Tile<Real>& from) {
    for (int row = rows.begin; row < rows.end; ++row)
      for (int col = cols.begin; col < cols.end; ++col) at(tensor, head, row, col) += from.at(row, col);
  }
  void write(Tensor tensor, int head, std::int64_t row, int col, double value) {
    at(tensor, head, row, col) = stored(tensor, value);
  }
  void copy(Tensor tensor, const GlobalMemory& from) { m_values[index(tensor)] = from.m_values[index(tensor)]; }
  const std::vector<Real>& values(Tensor tensor) const { return m_values[index(tensor)]; }

 private:
  static std::size_t index(Tensor tensor) { return static_cast<std::size_t>(tensor); }
  Real& at(Tensor tensor, int head, std::int64_t row, int col) {
    const TensorShape& shape = m_shapes[index(tensor)];
    const std::size_t first = static_cast<std::size_t>(head) * static_cast<std::size_t>(shape.rows + shape.spare_rows);
    return m_values[index(tensor)][(first + static_cast<std::size_t>(row)) * static_cast<std::size_t>(shape.cols) +
                                   static_cast<std::size_t>(col)];
  }
  /// Statistics, scales, places of pages, parts and sums stay in the type of the arithmetic; everything else is in the
  /// problem's dtype, or in fp8 where the schedule says so.
  Real stored(Tensor tensor, double value) const {
    const Layout layout = layout_of(tensor);
    const bool is_number = layout == Layout::statistic || layout == Layout::page || is_scale(layout);
    if (is_number || is_split(tensor) || tensor == Tensor::dQ_sum) return static_cast<Real>(value);
    return static_cast<Real>(round_to(is_fp8(tensor) ? DType::fp8 : m_dtype, value));
  }

  DType m_dtype;
  std::array<TensorShape, kNumTensors> m_shapes;
  std::array<std::vector<Real>, kNumTensors> m_values;
};

}  // namespace flashscope
