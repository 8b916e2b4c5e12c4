// Validate: what was recorded where, every row of it as a point, the errors in short, and the rows from the largest
// error down.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "viz/core/text.h"
#include "viz/panels/panels.h"
#include "viz/render/plot.h"

namespace flashscope::viz {
namespace {

std::string error_text(const std::optional<double>& error) {
  if (!error) return "–";
  char buffer[32];
  if (std::fabs(*error) < 0.00005) return "0 %";  // and not -0.00 %
  std::snprintf(buffer, sizeof buffer, std::fabs(*error) < 0.0005 ? "%+.2f %%" : "%+.1f %%", *error * 100);
  return buffer;
}

std::string capitalized(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

std::string value_text(MeasuredQuantity quantity, double value) {
  return quantity == MeasuredQuantity::time ? time_text(value) : size_text(value);
}

/// What stands below a row's name in its tip: its sets, and why its error does not count.
std::string remark_lines(const ValidatedRow& row, const ValidatedValue& value) {
  std::string text;
  for (const RowGroup& set : row_sets())
    if (set.key != "all" && set.holds(row)) text += "\nof the " + set.title;
  if (!row.wrong_output.empty()) return text + "\nwrong output: " + row.wrong_output;
  if (!row.refusal.empty()) return text;
  if (!value.measured.value) return text + "\nrecorded: unavailable (" + value.measured.reason + ")";
  const std::string remark = remark_on(value.standing);
  return remark.empty() ? text : text + "\n" + remark;
}

/// A description in lines of at most `width`, broken between its parts: "16 heads · 4,096 × 4,096 ·", "d 64 · bf16".
std::vector<std::string> description_lines(const Ui& ui, const std::string& described, float width) {
  static const std::string dot = " · ";
  std::vector<std::string> lines = {""};
  for (std::size_t at = 0; at < described.size();) {
    const std::size_t end = std::min(described.find(dot, at), described.size());
    const std::string part = described.substr(at, end - at) + (end < described.size() ? " ·" : "");
    const std::string longer = lines.back().empty() ? part : lines.back() + " " + part;
    if (!lines.back().empty() && text_width(ui.fonts.small, longer) > width)
      lines.push_back(part);
    else
      lines.back() = longer;
    at = end + (end < described.size() ? dot.size() : 0);
  }
  return lines;
}

/// Rows, median, mean and worst, in the four columns right of a line's name.
void summary_cells(const Ui& ui, ImDrawList* list, const Rect& row, float label_w, const ErrorSummary& s) {
  const float w = (row.w - label_w) / 4;
  const std::string cells[] = {std::to_string(s.rows), s.rows ? three_digits(100 * s.median) + " %" : "–",
                               s.rows ? three_digits(100 * s.mean) + " %" : "–",
                               s.rows ? three_digits(100 * s.worst) + " %" : "–"};
  for (int n = 0; n < 4; ++n)
    draw_text(ui, list, ui.fonts.body, row.x + label_w + static_cast<float>(n) * w, row.y + ui.px(1), w - ui.px(8),
              ui.colors->text, cells[n], Align::right);
}

/// Which rows are summed up, drawn and listed: one set at a time. Returns the y below.
float choose_set(const Ui& ui, const Rect& area, int& chosen, const Validation& validation) {
  ImGui::PushFont(ui.fonts.small);
  ImGui::SetCursorScreenPos({area.x, area.y});
  for (std::size_t n = 0; n < row_sets().size(); ++n) {
    const RowGroup& set = row_sets()[n];
    const bool on = static_cast<int>(n) == chosen;
    if (n > 0) ImGui::SameLine(0, ui.px(5));
    if (on) ImGui::PushStyleColor(ImGuiCol_Button, with_alpha(ui.colors->text_dim, 0.45));
    const std::string label = set.label + std::string(": ") + grouped(rows_in(validation.rows, set)) + " rows###" + set.key;
    if (ImGui::Button(label.c_str())) chosen = static_cast<int>(n);
    if (on) ImGui::PopStyleColor();
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s: %s", set.title.c_str(), set.meaning);
  }
  ImGui::PopFont();
  return area.y + ui.px(30);
}

/// A line a quantity; a click chooses which one the plot and the list show. Returns the y below.
float summaries(const Ui& ui, ImDrawList* list, const Rect& area, int& chosen, const RowGroup& set,
                const Validation& validation) {
  const Palette& c = *ui.colors;
  float y = area.y;
  const float label_w = ui.px(96), w = (area.w - label_w) / 4;
  static const char* heads[] = {"rows", "median", "mean", "worst"};
  draw_text(ui, list, ui.fonts.small, area.x + ui.px(6), y, label_w, c.text_dim, "error of");
  for (int n = 0; n < 4; ++n)
    draw_text(ui, list, ui.fonts.small, area.x + label_w + static_cast<float>(n) * w, y, w - ui.px(8), c.text_dim,
              heads[n], Align::right);
  y += ui.px(19);
  fill(list, {area.x, y - ui.px(2), area.w, 1}, c.line);
  for (std::size_t q = 0; q < quantities().size(); ++q) {
    const auto& entry = quantities()[q];
    const Rect row = {area.x, y, area.w, ui.px(20)};
    ImGui::SetCursorScreenPos({row.x, row.y});
    if (ImGui::InvisibleButton(entry.key, {row.w, row.h})) chosen = static_cast<int>(q);
    if (static_cast<int>(q) == chosen)
      fill(list, row, c.grip, ui.px(3));
    else if (ImGui::IsItemHovered())
      outline(list, row, c.line, ui.px(3));
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", entry.what);
    draw_text(ui, list, static_cast<int>(q) == chosen ? ui.fonts.bold : ui.fonts.body, row.x + ui.px(6), y + ui.px(1),
              label_w, c.text, entry.title);
    summary_cells(ui, list, row, label_w, summary_of(validation.rows, entry.which, set));
    y += ui.px(21);
  }
  return y + ui.px(4);
}

}  // namespace

ValidateAnswer validate_panel(const Ui& ui, const Rect& area, AppState& state, const Validation& validation,
                              double progress) {
  ValidateAnswer answer;
  const Palette& c = *ui.colors;
  const float gap = std::max(1.0f, std::floor(ui.px(6)));
  const float left_w = std::floor(std::min(area.w * 0.46f, area.h * 0.95f));
  const auto quantity = static_cast<MeasuredQuantity>(state.validate_quantity);

  ImDrawList* list = begin_panel(ui, "validate", {area.x, area.y, left_w, area.h});
  const Rect inner = Rect{area.x, area.y, left_w, area.h}.inset(ui.px(12));
  draw_text(ui, list, ui.fonts.bold, inner.x, inner.y, inner.w, c.text, capitalized(validation.origin));
  float y = choose_set(ui, {inner.x, inner.y + ui.px(24), inner.w, inner.h}, state.validate_set, validation);
  const RowGroup& set = row_sets()[static_cast<std::size_t>(state.validate_set)];
  y = summaries(ui, list, {inner.x, y, inner.w, inner.h}, state.validate_quantity, set, validation);
  const float foot = ui.px(26);
  draw_figure(ui, list, {inner.x, y + ui.px(6), inner.w, inner.bottom() - foot - y - ui.px(6)},
                                    validation_figure(validation, quantity, set));
  if (progress < 1) {
    ImGui::SetCursorScreenPos({inner.x, inner.bottom() - ui.px(20)});
    ImGui::PushFont(ui.fonts.small);
    const std::string done = grouped(static_cast<std::int64_t>(validation.rows.size())) + " of " +
                             grouped(static_cast<std::int64_t>(validation.total)) + " rows predicted, short runs" +
                             (state.validate_set > 0 ? " of these first" : " first");
    ImGui::ProgressBar(static_cast<float>(progress), {inner.w - ui.px(76), ui.px(20)}, done.c_str());
    ImGui::SameLine();
    if (ImGui::Button("Cancel")) answer.request = Request::cancel;
    ImGui::PopFont();
  } else if (validation.rows.size() < validation.total) {
    draw_text(ui, list, ui.fonts.small, inner.x, inner.bottom() - ui.px(18), inner.w - ui.px(76), c.warning,
              "Stopped: " + grouped(static_cast<std::int64_t>(validation.rows.size())) + " of " +
                  grouped(static_cast<std::int64_t>(validation.total)) + " rows predicted, long runs are missing.");
    ImGui::SetCursorScreenPos({inner.right() - ui.px(70), inner.bottom() - ui.px(20)});
    ImGui::PushFont(ui.fonts.small);
    if (ImGui::Button("Go on", {ui.px(70), 0})) answer.request = Request::resume;
    ImGui::PopFont();
  }
  end_panel();

  const Rect right = {area.x + left_w + gap, area.y, area.w - left_w - gap, area.h};
  list = begin_panel(ui, "validate head", {right.x, right.y, right.w, ui.px(34)});
  const auto& entry = entry_of(quantities(), quantity);
  const float x = right.x + ui.px(12), w = right.w - ui.px(34);
  const float value_w = ui.px(84), error_w = ui.px(74);
  draw_text(ui, list, ui.fonts.bold, x, right.y + ui.px(9), w, c.text,
            std::string(entry.title) + ", largest error first");
  static const char* heads[] = {"predicted", "recorded", "error"};
  for (int n = 0; n < 3; ++n)
    draw_text(ui, list, ui.fonts.small, x + w - error_w - static_cast<float>(2 - n) * value_w,
              right.y + ui.px(10), n == 2 ? error_w : value_w, c.text_dim, heads[n], Align::right);
  end_panel();

  list = begin_scrolling_panel(ui, "validate rows", {right.x, right.y + ui.px(34), right.w, right.h - ui.px(34)});
  y = ImGui::GetCursorScreenPos().y;
  const float name_w = ui.px(122), described_w = w - name_w - 2 * value_w - error_w - ui.px(6);
  for (std::size_t place : by_error(validation, quantity)) {
    const ValidatedRow& row = validation.rows[place];
    if (!set.holds(row)) continue;
    const ValidatedValue& value = row.values[static_cast<std::size_t>(quantity)];
    const std::vector<std::string> lines = description_lines(ui, row.described, described_w);
    const float row_h = ui.px(4 + 16 * static_cast<float>(lines.size()));
    ImGui::SetCursorScreenPos({x, y});
    if (ImGui::InvisibleButton(("##row" + std::to_string(row.index)).c_str(), {w, row_h})) answer.chosen = row.index;
    const bool hovered = ImGui::IsItemHovered();
    if (hovered) {
      fill(list, {x - ui.px(4), y, w + ui.px(8), row_h}, c.grip, ui.px(3));
      ImGui::SetTooltip(
          "%s: %s\n%s%s", row.algorithm.c_str(), row.described.c_str(),
          row.refusal.empty() ? "click: explore it" : row.refusal.c_str(), remark_lines(row, value).c_str());
    }
    draw_text(ui, list, ui.fonts.small, x, y + ui.px(2), name_w, c.text, row.algorithm);
    for (std::size_t n = 0; n < lines.size(); ++n)
      draw_text(ui, list, ui.fonts.small, x + name_w, y + ui.px(2 + 16 * static_cast<float>(n)), described_w,
                c.text_dim, lines[n]);
    const Color ink = value.is_counted() ? c.text : c.text_dim;
    const float right_edge = x + w;
    if (row.refusal.empty()) {
      draw_text(ui, list, ui.fonts.small, right_edge - error_w - 2 * value_w, y + ui.px(2), value_w, ink,
                value_text(quantity, value.predicted), Align::right);
      draw_text(ui, list, ui.fonts.small, right_edge - error_w - value_w, y + ui.px(2), value_w, ink,
                value.measured.value ? value_text(quantity, *value.measured.value) : "–", Align::right);
      draw_text(ui, list, ui.fonts.small, right_edge - error_w, y + ui.px(2), error_w, ink, error_text(value.error()),
                Align::right);
    } else {
      draw_text(ui, list, ui.fonts.small, right_edge - error_w - 2 * value_w, y + ui.px(2), 2 * value_w + error_w,
                c.text_dim, "not predicted", Align::right);
    }
    y += row_h;
  }
  ImGui::SetCursorScreenPos({x, y});
  ImGui::Dummy({1, ui.px(4)});
  end_panel();
  return answer;
}

}  // namespace flashscope::viz
