// Where the bytes go: a bar a tensor group, level and algorithm, then why, then the totals beside the counters.
#include <algorithm>

#include "viz/core/text.h"
#include "viz/panels/panels.h"
#include "viz/render/plot.h"
#include "viz/render/rich_text.h"

namespace flashscope::viz {
namespace {

std::string joined(const std::vector<std::string>& sentences) {
  std::string text;
  for (const std::string& s : sentences) text += s + ". ";
  return text;
}

/// A paragraph in small type, dim; returns the y below.
float paragraph(const Ui& ui, ImDrawList* list, float x, float y, float w, const std::string& text) {
  return y + draw_paragraph(ui, list, ui.fonts.small, x, y, w, ui.colors->text_dim, text) + ui.px(4);
}

float group(const Ui& ui, ImDrawList* list, const Rect& area, float y, const ByteRow& row, const ByteTable& table,
            const Settings& settings) {
  const Palette& c = *ui.colors;
  float x = area.x;
  for (Tensor tensor : row.tensors) {
    fill(list, {x, y + ui.px(3), ui.px(11), ui.px(11)}, c.of(tensor), ui.px(2));
    x += ui.px(15);
  }
  draw_text(ui, list, ui.fonts.bold, x + ui.px(3), y, area.w, c.text, row.name);
  y += ui.px(21);
  const float label_w = ui.px(92), gap = ui.px(10);
  const float bar_w = (area.w - label_w - gap) / 2;
  for (std::size_t side = 0; side < 2; ++side) {
    draw_text(ui, list, ui.fonts.small, area.x, y + ui.px(1), label_w - ui.px(6), c.text, settings.algorithms[side]);
    const auto bar = [&](float at, std::int64_t bytes, std::int64_t left, std::int64_t most, const std::string& text) {
      const double unit = most > 0 ? 1 / static_cast<double>(most) : 0;
      draw_bar(ui, list, {at, y, bar_w, ui.px(17)}, static_cast<double>(bytes) * unit,
               mixed(c.of(row.tensors.front()), c.panel, 0.8), text, static_cast<double>(left) * unit);
    };
    const auto size = [](std::int64_t bytes) { return size_text(static_cast<double>(bytes)); };
    const std::int64_t hbm = row.hbm(side), left = table.left(row, side);
    std::string in_hbm = "HBM " + size(hbm);
    if (left > 0)  // the pale part: what the run has written and HBM will get later
      for (const std::string& longer : {in_hbm + " + " + size(left) + " left in L2",
                                        in_hbm + " + " + size(left) + " in L2", in_hbm + " + " + size(left)})
        if (text_width(ui.fonts.small, longer) + ui.px(10) <= bar_w) {
          in_hbm = longer;
          break;
        }
    bar(area.x + label_w, row.sm(side), 0, table.most_sm, "SM " + size(row.sm(side)));
    bar(area.x + label_w + bar_w + gap, hbm, left, table.most_hbm, in_hbm);
    y += ui.px(20);
  }
  const std::string left = joined(row.sides[0].sentences), right = joined(row.sides[1].sentences);
  if (left == right) return paragraph(ui, list, area.x, y + ui.px(1), area.w, left) + ui.px(7);
  y = paragraph(ui, list, area.x, y + ui.px(1), area.w, settings.algorithms[0] + ": " + left);
  return paragraph(ui, list, area.x, y + ui.px(1), area.w, settings.algorithms[1] + ": " + right) + ui.px(7);
}

}  // namespace

void bytes_panel(const Ui& ui, const Rect& area, const AppState& state, const ByteTable& table,
                 const std::vector<Comparison>& comparisons) {
  ImDrawList* list = begin_scrolling_panel(ui, "bytes", area);
  const Palette& c = *ui.colors;
  const Rect inner = {area.x + ui.px(12), area.y, area.w - ui.px(34), area.h};
  float y = ImGui::GetCursorScreenPos().y;
  draw_text(ui, list, ui.fonts.bold, inner.x, y, inner.w, c.text, "Where the bytes go, predicted");
  y += ui.px(21);
  y += draw_paragraph(ui, list, ui.fonts.small, inner.x, y, inner.w, c.text_dim,
                      "HBM: what passes during the run; pale: written by it and still in L2 when it ends.") +
       ui.px(8);
  for (const ByteRow& row : table.rows) y = group(ui, list, inner, y, row, table, state.settings);

  draw_text(ui, list, ui.fonts.bold, inner.x, y, inner.w, c.text, "Levels in all, predicted beside measured");
  y += ui.px(22);
  for (const Comparison& comparison : comparisons) {
    draw_text(ui, list, ui.fonts.body, inner.x, y, inner.w, c.text, comparison.algorithm);
    draw_text(ui, list, ui.fonts.small, inner.x + ui.px(130), y + ui.px(2), inner.w - ui.px(130), c.text_dim,
              comparison.measured_from, Align::right);
    y += ui.px(20);
    for (const ComparisonRow& row : comparison.rows) {
      if (row.kind != ComparisonRow::Kind::bytes || row.label.find("M ") == std::string::npos) continue;
      const auto cell = [&](float at, const kernels::Measured<double>& v) {
        draw_text(ui, list, ui.fonts.small, inner.x + at, y, ui.px(70), v.value ? c.text : c.text_dim,
                  v.value ? size_text(*v.value) : "–", Align::right);
      };
      draw_text(ui, list, ui.fonts.small, inner.x, y, ui.px(80), c.text, row.label);
      cell(ui.px(70), row.predicted);
      cell(ui.px(146), row.measured);
      draw_text(ui, list, ui.fonts.small, inner.x + ui.px(232), y, inner.w - ui.px(232), c.text_dim,
                difference_reason(row));
      y += ui.px(18);
    }
    y += ui.px(6);
  }
  ImGui::SetCursorScreenPos({inner.x, y});
  ImGui::Dummy({1, ui.px(6)});
  end_panel();
}

}  // namespace flashscope::viz
