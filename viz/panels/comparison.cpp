#include <algorithm>
#include <cmath>

#include "viz/core/live_run.h"
#include "viz/core/text.h"
#include "viz/panels/panels.h"
#include "viz/render/rich_text.h"

namespace flashscope::viz {
namespace {

/// Heights in units; a row of a table is as high as the panel leaves it.
constexpr float kHead = 22, kAfterTable = 5, kSource = 20, kRatios = 61, kButton = 28, kLeastRow = 14, kRow = 18;

constexpr float kNameLine = 16;
/// Widths, and those of a narrow panel.
float labels_w(const Ui& ui, float w) { return ui.px(w < ui.px(270) ? 80 : 92); }
float errors_w(const Ui& ui, float w) { return ui.px(w < ui.px(270) ? 46 : 56); }

/// A long name stands above the heads of the columns.
bool needs_line(const Ui& ui, float w, const Comparison& comparison) {
  const float value_w = (w - labels_w(ui, w) - errors_w(ui, w)) / 2;
  return text_width(ui.fonts.bold, comparison.algorithm) + ui.px(6) >
         labels_w(ui, w) + value_w - text_width(ui.fonts.small, "predicted");
}

void table(const Ui& ui, ImDrawList* list, const Rect& area, const Comparison& comparison, float row_h) {
  const Palette& c = *ui.colors;
  ImFont* font = ui.fonts.small;
  float y = area.y;
  const float label_w = labels_w(ui, area.w), error_w = errors_w(ui, area.w);
  const float value_w = (area.w - label_w - error_w) / 2;
  const float x1 = area.x + label_w, x2 = x1 + value_w, x3 = x2 + value_w;
  draw_text(ui, list, ui.fonts.bold, area.x, y, area.w, c.text, comparison.algorithm);
  y += ui.px(2 + (needs_line(ui, area.w, comparison) ? kNameLine : 0));
  draw_text(ui, list, font, x1, y, value_w, c.text_dim, "predicted", Align::right);
  draw_text(ui, list, font, x2, y, value_w, c.text_dim, "recorded", Align::right);
  draw_text(ui, list, font, x3, y, error_w, c.text_dim, "error", Align::right);
  y += ui.px(kHead - 5);
  fill(list, {area.x, y, area.w, 1}, c.line);
  y += ui.px(3);
  for (const ComparisonRow& row : comparison.rows) {
    const Rect line = {area.x, y, area.w, row_h};
    const auto cell = [&](float x, const kernels::Measured<double>& v) {
      draw_text(ui, list, font, x, y, value_w, v.value ? c.text : c.text_dim, v.value ? row.value_text(*v.value) : "–",
                Align::right);
    };
    draw_text(ui, list, font, area.x, y, label_w, c.text, row.label);
    cell(x1, row.predicted);
    cell(x2, row.measured);
    draw_text(ui, list, font, x3, y, error_w, c.text, row.error_text(), Align::right);
    if (ImGui::IsMouseHoveringRect({line.x, line.y}, {line.right(), line.bottom()})) {
      std::string tip = row.label + ": " + row.note;
      if (!row.predicted.value) tip += "\npredicted: unavailable (" + row.predicted.reason + ")";
      if (!row.measured.value) tip += "\nrecorded: unavailable (" + row.measured.reason + ")";
      if (row.kind == ComparisonRow::Kind::bytes && row.predicted.value)
        tip += "\npredicted: " + grouped(std::llround(*row.predicted.value)) + " bytes";
      ImGui::SetTooltip("%s", tip.c_str());
    }
    y += row_h;
  }
}

std::string times_text(const Comparison& a, const Comparison& b, std::size_t row) {
  if (row >= a.rows.size() || row >= b.rows.size()) return "–";
  const auto& x = a.rows[row].predicted;
  const auto& y = b.rows[row].predicted;
  if (!x.value || !y.value || *y.value == 0) return "–";
  return three_digits(*x.value / *y.value) + " ×";
}

/// As many lines as it takes, broken between parts.
std::vector<std::string> in_lines(const Ui& ui, float width, const std::string& text) {
  static const std::string kBetween = " · ";
  std::vector<std::string> lines(1);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(kBetween, at), text.size());
    const std::string part = text.substr(at, end - at);
    const std::string longer = lines.back() + (lines.back().empty() ? "" : kBetween) + part;
    if (lines.back().empty() || text_width(ui.fonts.small, longer) <= width)
      lines.back() = longer;
    else
      lines.push_back(part);
    at = end + kBetween.size();
  }
  return lines;
}

}  // namespace

Request comparison_panel(const Ui& ui, const Rect& area, const Results& results,
                         const std::vector<Comparison>& comparisons) {
  Request request = Request::none;
  const Palette& c = *ui.colors;
  // One line says where all recorded values come from, unless they come from several places.
  const bool one_source = std::all_of(comparisons.begin(), comparisons.end(), [&](const Comparison& other) {
    return other.measured_from == comparisons[0].measured_from;
  });
  const float full_w = area.w - ui.px(20);
  const std::vector<std::string> problem = in_lines(ui, full_w - ui.px(14), describe(results.settings.problem));
  float rows = 0, fixed = 8 + 20 + 17 * static_cast<float>(problem.size()) + 4 + kButton;
  for (const Comparison& comparison : comparisons) {
    rows += static_cast<float>(comparison.rows.size());
    fixed += kHead + kAfterTable + (one_source ? 0 : kSource);
    fixed += needs_line(ui, full_w - ui.px(14), comparison) ? kNameLine : 0;
  }
  if (one_source && !comparisons.empty()) fixed += kSource;
  if (comparisons.size() == 2) fixed += kRatios;
  const float row_units = rows == 0 ? kRow : std::clamp((area.h / ui.px(1) - fixed) / rows, kLeastRow, kRow);
  const bool scrolls = ui.px(fixed + rows * row_units) > area.h + 1;
  ImDrawList* list = scrolls ? begin_scrolling_panel(ui, "comparison", area) : begin_panel(ui, "comparison", area);
  const float x = area.x + ui.px(10), w = full_w - (scrolls ? ui.px(14) : 0);
  float y = scrolls ? ImGui::GetCursorScreenPos().y : area.y + ui.px(8);
  draw_text(ui, list, ui.fonts.bold, x, y, w, c.text, "Predicted and recorded");
  y += ui.px(20);
  for (const std::string& line : problem) {
    draw_text(ui, list, ui.fonts.small, x, y, w, c.text_dim, line);
    y += ui.px(17);
  }
  y += ui.px(4);
  for (const Comparison& comparison : comparisons) {
    table(ui, list, {x, y, w, 0}, comparison, ui.px(row_units));
    y += ui.px(kHead + row_units * static_cast<float>(comparison.rows.size()) + kAfterTable);
    y += ui.px(needs_line(ui, w, comparison) ? kNameLine : 0);
    if (one_source && &comparison != &comparisons.back()) continue;
    y += draw_paragraph(ui, list, ui.fonts.small, x, y, w, c.text_dim, comparison.measured_from) + ui.px(3);
  }
  if (comparisons.size() == 2) {
    draw_text(ui, list, ui.fonts.bold, x, y, w, c.text, comparisons[0].algorithm + " ÷ " + comparisons[1].algorithm);
    y += ui.px(19);
    const std::pair<const char*, std::size_t> ratios[] = {{"SM read", 0}, {"HBM read", 2}, {"time", 6}};
    float at = x;
    for (const auto& [name, row] : ratios) {
      draw_text(ui, list, ui.fonts.small, at, y, w / 3, c.text_dim, name);
      draw_text(ui, list, ui.fonts.title, at, y + ui.px(16), w / 3, c.text,
                times_text(comparisons[0], comparisons[1], row));
      at += w / 3;
    }
    y += ui.px(42);
  }
  ImGui::SetCursorScreenPos({x, y});
  if (results.progress < 1) {
    ImGui::PushFont(ui.fonts.small);
    ImGui::ProgressBar(static_cast<float>(results.progress), {w - ui.px(70), ui.px(20)}, "simulating");
    ImGui::SameLine();
    if (ImGui::Button("Cancel")) request = Request::cancel;
    ImGui::PopFont();
  } else if (results.asks_first) {
    if (ImGui::Button("Simulate the whole problem")) request = Request::confirm;
  } else if (results.live_progress < 1) {
    ImGui::PushFont(ui.fonts.small);
    ImGui::ProgressBar(static_cast<float>(results.live_progress), {w - ui.px(70), ui.px(20)}, "measuring");
    ImGui::SameLine();
    if (ImGui::Button("Cancel")) request = Request::cancel;
    ImGui::PopFont();
  } else if (kCanReachGpu) {
    ImGui::PushFont(ui.fonts.small);
    if (ImGui::Button("Measure on this GPU")) request = Request::measure;
    if (ImGui::IsItemHovered())
      ImGui::SetTooltip("runs both kernels here: checked against the reference, then timed and counted");
    if (results.live && !results.live->message.empty()) {
      ImGui::SameLine();
      ImGui::PushStyleColor(ImGuiCol_Text, c.warning);
      ImGui::TextUnformatted("not measured (?)");
      ImGui::PopStyleColor();
      if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", results.live->message.c_str());
    }
    ImGui::PopFont();
  }
  end_panel();
  return request;
}

}  // namespace flashscope::viz
