#include "viz/render/map_layout.h"

#include <algorithm>
#include <optional>

#include "viz/core/window_words.h"

namespace flashscope::viz {
namespace {

constexpr float kStatistic = 3;     // units: a column of one number a row
constexpr float kLargestCell = 26;  // units
// Units a side of a matrix of scores below which more is given up: the places of the other stage's tensors, then names.
constexpr float kReadableScores = 64, kScoresWithoutNames = 28;

std::string label_of(Tensor tensor, bool shortened) {
  if (is_scale(layout_of(tensor))) return "scales";
  if (shortened) switch (tensor) {
      case Tensor::Q_fp8: return "Q8";
      case Tensor::K_fp8: return "K8";
      case Tensor::V_fp8: return "V8";
      case Tensor::O_split: return "O…";
      case Tensor::LSE_split: return "LSE…";
      case Tensor::dQ_sum: return "ΣdQ";
      default: break;
    }
  return name_on_stage(tensor);
}

/// How much a layout asks for.
struct Demand {
  bool only_own = false;
  bool short_names = false;
  float gap = 17;  // units between columns
  float enough = kReadableScores;
  bool names = true;
};

class Attempt {
 public:
  Attempt(const Ui& ui, const StageTrace& trace, const std::vector<Tensor>& order, const Demand& demand)
      : m_ui(ui), m_trace(trace), m_gap(ui.px(demand.gap)), m_named(demand.names) {
    const auto& own = trace.schedule().tensors();
    for (Tensor tensor : order) {
      const bool kept = std::find(own.begin(), own.end(), tensor) != own.end();
      const bool ghost = tensor == Tensor::S && trace.scores_stay_on_chip();
      if (demand.only_own && !kept && !ghost) continue;
      Column column;
      column.tensor = tensor;
      if (demand.names) column.label = label_of(tensor, demand.short_names);
      // In a place that both stages have, the same room for either name.
      const std::string on_chip = names_of_scores_on_chip(trace.schedule().problem().pass).back();
      if (demand.names && tensor == Tensor::S && !kept) column.label = on_chip;
      if (demand.names && tensor == Tensor::S && (ghost || !demand.only_own)) column.room_for = on_chip;
      const bool named = demand.names && !m_columns.empty() && is_scale(layout_of(tensor)) &&
                         is_scale(layout_of(m_columns.back().tensor));
      if (named) column.label.clear();
      m_columns.push_back(column);
    }
  }

  /// Pixels that a tile may have a side.
  float cell(float width, float height) const {
    float across = 0, fixed = -m_gap;
    for (const Column& column : m_columns) {
      const float tiles = tiles_across(column.tensor);
      across += tiles;
      // A name that is wider than its map takes room of its own. Which it is hangs on the cell, but only little.
      fixed += space_after(column);
      if (tiles == 0)
        fixed += std::max(m_ui.px(kStatistic), label_w(column));
      else if (!is_score_shaped(column.tensor))
        fixed += std::max(0.0f, label_w(column) - m_ui.px(kStatistic));
    }
    return std::min(
        {across > 0 ? (width - fixed) / across : height / tiles_down(), height / tiles_down(), m_ui.px(kLargestCell)});
  }

  float scores_side(float cell) const {
    const TileGrid& scores = m_trace.score_grid();
    return cell * static_cast<float>(std::max(scores.down, scores.across));
  }

  MapLayout place(float x, float width, float cell) {
    MapLayout layout;
    layout.height = cell * tiles_down();
    float used = -m_gap;
    for (Column& column : m_columns) {
      const float tiles = tiles_across(column.tensor);
      column.w = tiles == 0 ? m_ui.px(kStatistic) : std::max(m_ui.px(kStatistic), cell * tiles);
      used += std::max(column.w, label_w(column)) + space_after(column);
    }
    float at = x + std::max(0.0f, (width - used) / 2);
    for (Column& column : m_columns) {
      const float room = std::max(column.w, label_w(column)), after = space_after(column);
      column.x = at + (room - column.w) / 2;
      column.label_x = at - std::min(m_gap, after) / 2 + m_ui.px(1);
      column.label_w = room + std::min(m_gap, after) - m_ui.px(2);
      at += room + after;
    }
    // Columns named together: the name over all of them.
    for (std::size_t n = 1; m_named && n < m_columns.size(); ++n)
      if (m_columns[n].label.empty()) {
        std::size_t first = n - 1;
        while (m_columns[first].label.empty()) --first;
        m_columns[first].label_w = m_columns[n].label_x + m_columns[n].label_w - m_columns[first].label_x;
      }
    layout.columns.assign(m_columns.begin(), m_columns.end());
    return layout;
  }

 private:
  struct Column : MapColumn {
    std::string room_for;  // a name that is not drawn here
  };
  /// A name may reach half of the gap to either side.
  float label_w(const Column& column) const {
    if (m_named && is_scale(layout_of(column.tensor)))  // one name over several columns
      return std::max(0.0f, (text_width(m_ui.fonts.small, "scales") - m_gap + m_ui.px(7)) / 3);
    if (column.label.empty()) return 0;
    const float named =
        std::max(text_width(m_ui.fonts.small, column.label), text_width(m_ui.fonts.small, column.room_for));
    return named - m_gap + m_ui.px(7);
  }
  float space_after(const Column& column) const {
    const std::size_t next = static_cast<std::size_t>(&column - m_columns.data()) + 1;
    return m_named && next < m_columns.size() && m_columns[next].label.empty() ? m_ui.px(4) : m_gap;
  }
  /// In tiles of scores: elements decide the width, so that d = 64 beside Bc = 64 is as wide as a tile of S.
  float tiles_across(Tensor tensor) const {
    if (is_statistic(tensor)) return 0;
    const TileGrid& scores = m_trace.score_grid();
    if (is_score_shaped(tensor)) return static_cast<float>(scores.across);
    return std::max(1.0f,
                    static_cast<float>(m_trace.schedule().problem().head_dim) / static_cast<float>(scores.cell_cols()));
  }
  float tiles_down() const {
    return static_cast<float>(std::max({1, m_trace.score_grid().down, m_trace.score_grid().across}));
  }

  const Ui& m_ui;
  const StageTrace& m_trace;
  const float m_gap;
  const bool m_named;
  std::vector<Column> m_columns;
};

}  // namespace

const MapColumn* MapLayout::find(Tensor tensor) const {
  for (const MapColumn& column : columns)
    if (column.tensor == tensor) return &column;
  return nullptr;
}

std::vector<std::string> names_of_scores_on_chip(Pass pass) {
  // A backward pass that stores no P computes the scores of the forward pass a second time.
  if (pass == Pass::backward) return {"S, recomputed on chip", "S, recomputed", "S again"};
  return {"S, on chip only", "S on chip", "on chip"};
}

MapLayout map_layout(const Ui& ui, const StageTrace& trace, const std::vector<Tensor>& order, float x, float width,
                     float height) {
  const Demand demands[] = {{false, false, 17},
                            {true, false, 17},
                            {true, true, 12},
                            {true, true, 8, kScoresWithoutNames},
                            {true, true, 4, 0, false}};
  std::optional<Attempt> best;
  float best_cell = -1e9f;
  for (const Demand& demand : demands) {
    Attempt attempt(ui, trace, order, demand);
    const float cell = attempt.cell(width, height);
    // As high as there is room for is as good as it gets.
    const bool readable = attempt.scores_side(cell) >=
                          std::min(ui.px(demand.enough), 0.98f * attempt.scores_side(attempt.cell(1e6f, height)));
    if (readable || cell > best_cell) {
      best.emplace(attempt);
      best_cell = cell;
    }
    if (readable) break;
  }
  return best->place(x, width, std::max(best_cell, 0.01f));
}

}  // namespace flashscope::viz
