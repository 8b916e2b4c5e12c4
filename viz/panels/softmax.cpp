// Online softmax of one row: the scores, what the tile under way does to m, l and acc, all steps, and beside them the
// formula without a maximum in a narrow dtype.
#include <algorithm>
#include <cmath>
#include <limits>

#include "viz/core/text.h"
#include "viz/panels/panels.h"

namespace flashscope::viz {
namespace {

std::string value_text(double v) {
  if (std::isnan(v)) return "NaN";
  if (std::isinf(v)) return v > 0 ? "∞" : "−∞";
  char buffer[32];
  const double size = std::fabs(v);
  std::snprintf(buffer, sizeof buffer, size >= 1e6 || (size > 0 && size < 1e-3) ? "%.2e" : "%.4g", v);
  std::string text = buffer;
  if (text[0] == '-') text = "−" + text.substr(1);
  return text;
}

void buttons(const Ui& ui, float right, SoftmaxChoice& choice) {
  ImGui::PushFont(ui.fonts.small);
  ImGui::AlignTextToFramePadding();
  ImGui::TextDisabled("try");
  for (const SoftmaxExample& example : softmax_examples()) {
    ImGui::SameLine(0, ui.px(4));
    if (ImGui::Button(example.name)) {
      choice.scores = example.scores;
      choice.tiles = 1;
      choice.backward = false;
    }
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", example.what);
  }
  const float needed = ui.px(18 + 4 + 50) + text_width(ui.fonts.small, "keys a tile");
  if (ImGui::GetItemRectMax().x + needed <= right) ImGui::SameLine(0, ui.px(18));
  ImGui::TextDisabled("keys a tile");
  ImGui::SameLine(0, ui.px(4));
  ImGui::SetNextItemWidth(std::clamp(right - ImGui::GetCursorScreenPos().x, ui.px(36), ui.px(76)));
  const int before = choice.bc;
  ImGui::SliderInt("##keys a tile", &choice.bc, 1, static_cast<int>(choice.scores.size()), "%d",
                   ImGuiSliderFlags_AlwaysClamp);
  if (choice.bc != before) choice.tiles = 1;
  ImGui::PopFont();
}

/// Bars of the weights exp(s - m) so far, the scores below them as numbers to drag or type.
void score_cells(const Ui& ui, ImDrawList* list, const Rect& whole, SoftmaxChoice& choice, const SoftmaxSteps& steps) {
  const Palette& c = *ui.colors;
  const float names_w = ui.px(70);
  const Rect area = {whole.x + names_w, whole.y, whole.w - names_w, whole.h};
  const int keys = static_cast<int>(choice.scores.size());
  const float w = area.w / static_cast<float>(keys), bars_h = area.h - ui.px(44), base = area.y + bars_h;
  const int done = choice.tiles;
  const double m = done > 0 ? steps.steps[static_cast<std::size_t>(done) - 1].m : -HUGE_VAL;
  ImGui::PushFont(ui.fonts.small);
  // What the bars, the fields and the line below them are.
  draw_text(ui, list, ui.fonts.small, whole.x, area.y + ui.px(4), names_w, c.text_dim, "exp(s − m)");
  draw_text(ui, list, ui.fonts.small, whole.x, base + ui.px(6), names_w, c.text_dim, "score s");
  draw_text(ui, list, ui.fonts.small, whole.x, base + ui.px(26), names_w, c.text_dim, "value v");
  for (const SoftmaxStep& step : steps.steps) {
    const auto tile = static_cast<int>(&step - steps.steps.data());
    const Rect frame = {area.x + static_cast<float>(step.first) * w + ui.px(2), area.y,
                        static_cast<float>(step.last - step.first) * w - ui.px(4), area.h};
    fill(list, frame, tile < done ? mixed(c.of(Tensor::S), c.panel, 0.14) : c.box, ui.px(3));
    outline(list, frame, tile == done - 1 ? c.accent : c.line, ui.px(3), tile == done - 1 ? ui.px(2) : 1);
    for (int k = step.first; k < step.last; ++k) {
      const auto key = static_cast<std::size_t>(k);
      const float x = area.x + static_cast<float>(k) * w;
      const double weight = tile < done && std::isfinite(m) ? std::exp(choice.scores[key] - m) : 0;
      const float bar_w = std::min(w - ui.px(14), ui.px(46)), bar_x = x + (w - bar_w) / 2;
      const float height = (bars_h - ui.px(24)) * static_cast<float>(std::clamp(weight, 0.0, 1.0));
      if (tile < done) {
        fill(list, {bar_x, base - height, bar_w, height}, c.of(Tensor::P), ui.px(2));
        draw_text(ui, list, ui.fonts.small, x, base - height - ui.px(17), w, c.text, value_text(weight), Align::center);
      }
      ImGui::SetCursorScreenPos({x + ui.px(7), base + ui.px(3)});
      ImGui::SetNextItemWidth(w - ui.px(14));
      auto shown = static_cast<float>(choice.scores[key]);
      const bool masked = std::isinf(choice.scores[key]);
      if (ImGui::DragFloat(("##score" + std::to_string(k)).c_str(), &shown, 0.02f, 0, 0, masked ? "−∞" : "%.2f"))
        choice.scores[key] = std::round(static_cast<double>(shown) * 100) / 100;
      if (ImGui::IsItemClicked(ImGuiMouseButton_Right))
        choice.scores[key] = masked ? 0 : -std::numeric_limits<double>::infinity();
      if (ImGui::IsItemHovered())
        ImGui::SetTooltip("score of key %d: drag, or double-click and type; right click masks it", k);
      draw_text(ui, list, ui.fonts.small, x, base + ui.px(26), w, c.text_dim, value_text(steps.values[key]),
                Align::center);
    }
  }
  ImGui::PopFont();
}

/// The equations of the tile that was done last, with their numbers.
void equations(const Ui& ui, ImDrawList* list, const Rect& area, const SoftmaxChoice& choice,
               const SoftmaxSteps& steps) {
  const Palette& c = *ui.colors;
  float y = area.y;
  const auto line = [&](const std::string& name, const std::string& formula, const std::string& numbers) {
    draw_text(ui, list, ui.fonts.bold, area.x, y, ui.px(60), c.text, name);
    draw_text(ui, list, ui.fonts.body, area.x + ui.px(62), y, ui.px(220), c.text_dim, formula);
    draw_text(ui, list, ui.fonts.body, area.x + ui.px(268), y, area.w - ui.px(268), c.text, numbers);
    y += ui.px(21);
  };
  if (choice.tiles == 0) {
    line("start", "nothing seen yet", "m = −∞, ℓ = 0, acc = 0");
    draw_text(ui, list, ui.fonts.small, area.x, y + ui.px(2), area.w, c.text_dim,
              "Step through the tiles: each sees its own keys only, and mends what was summed before.");
    return;
  }
  const SoftmaxStep& s = steps.steps[static_cast<std::size_t>(choice.tiles) - 1];
  const bool grew = s.m > s.m_before;
  const std::string r = value_text(s.rescale);
  line("m", "max(m, largest score of the tile)", value_text(s.m_before) + " → " + value_text(s.m));
  const std::string remark = s.m_before == s.m                   ? "   the maximum stands: nothing to mend"
                             : grew && std::isfinite(s.m_before) ? "   what was summed was too large"
                                                                 : "";
  line("rescale", "exp(m before − m)",
       r + (text_width(ui.fonts.body, r + remark) <= area.w - ui.px(268) ? remark : ""));
  const double added_l = s.l - s.rescale * s.l_before, added_acc = s.acc - s.rescale * s.acc_before;
  line("ℓ", "rescale · ℓ + Σ exp(s − m)",
       r + " · " + value_text(s.l_before) + " + " + value_text(added_l) + " = " + value_text(s.l));
  line("acc", "rescale · acc + Σ exp(s − m) · v",
       r + " · " + value_text(s.acc_before) + " + " + value_text(added_acc) + " = " + value_text(s.acc));
}

/// Returns the y below.
float table(const Ui& ui, ImDrawList* list, const Rect& area, const SoftmaxChoice& choice, const SoftmaxSteps& steps) {
  const Palette& c = *ui.colors;
  static const char* heads[] = {"keys", "m", "rescale", "ℓ", "acc"};
  const float w = area.w / 5;
  float y = area.y;
  for (int n = 0; n < 5; ++n)
    draw_text(ui, list, ui.fonts.small, area.x + static_cast<float>(n) * w, y, w - ui.px(6), c.text_dim, heads[n],
              n == 0 ? Align::left : Align::right);
  y += ui.px(18);
  fill(list, {area.x, y - ui.px(2), area.w, 1}, c.line);
  const float row_h = std::clamp((area.bottom() - y) / static_cast<float>(std::max<std::size_t>(1, steps.steps.size())),
                                 ui.px(13), ui.px(19));
  for (std::size_t n = 0; n < steps.steps.size() && y + row_h <= area.bottom() + ui.px(4); ++n) {
    const SoftmaxStep& s = steps.steps[n];
    const bool done = static_cast<int>(n) < choice.tiles, last = static_cast<int>(n) + 1 == choice.tiles;
    if (last) fill(list, {area.x - ui.px(4), y, area.w + ui.px(4), row_h}, c.grip, ui.px(2));
    const std::string cells[] = {
        std::to_string(s.first) + (s.last - s.first > 1 ? "–" + std::to_string(s.last - 1) : ""), value_text(s.m),
        value_text(s.rescale), value_text(s.l), value_text(s.acc)};
    for (int k = 0; k < 5; ++k)
      if (done || k == 0)
        draw_text(ui, list, ui.fonts.small, area.x + static_cast<float>(k) * w, y, w - ui.px(6),
                  done ? c.text : c.text_dim, cells[k], k == 0 ? Align::left : Align::right);
    y += row_h;
  }
  return y;
}

void naive(const Ui& ui, ImDrawList* list, const Rect& area, SoftmaxChoice& choice, const SoftmaxSteps& steps) {
  const Palette& c = *ui.colors;
  ImGui::SetCursorScreenPos({area.x, area.y});
  ImGui::PushFont(ui.fonts.small);
  ImGui::AlignTextToFramePadding();
  ImGui::TextUnformatted("without the maximum, in");
  for (DType dtype : {DType::fp16, DType::bf16, DType::fp32}) {
    ImGui::SameLine(0, ui.px(4));
    const bool on = dtype == choice.naive;
    if (on) ImGui::PushStyleColor(ImGuiCol_Button, with_alpha(c.text_dim, 0.45));
    if (ImGui::Button(name_of(dtype))) choice.naive = dtype;
    if (on) ImGui::PopStyleColor();
  }
  ImGui::PopFont();
  float y = area.y + ui.px(28);
  const float w = area.w / 3;
  static const char* heads[] = {"s", "exp(s)", "sum so far"};
  for (int n = 0; n < 3; ++n)
    draw_text(ui, list, ui.fonts.small, area.x + static_cast<float>(n) * w, y, w - ui.px(4), c.text_dim, heads[n],
              Align::right);
  y += ui.px(18);
  const float room = area.bottom() - ui.px(22) - y, least_h = ui.px(13);
  const auto rows = static_cast<int>(choice.scores.size());
  // Where not all have room, the last ones: the sum that is left is theirs.
  const int fitting = std::clamp(static_cast<int>(room / least_h), std::min(1, rows), rows);
  const float row_h = std::clamp(room / static_cast<float>(std::max(1, rows)), least_h, ui.px(17));
  for (auto k = static_cast<std::size_t>(rows - fitting); k < choice.scores.size(); ++k) {
    const double values[] = {choice.scores[k], steps.naive_exp[k], steps.naive_sum[k]};
    for (int n = 0; n < 3; ++n) {
      const bool bad = n > 0 && !std::isfinite(values[n]);
      draw_text(ui, list, bad ? ui.fonts.bold : ui.fonts.small, area.x + static_cast<float>(n) * w, y, w - ui.px(4),
                bad ? c.warning : c.text, value_text(values[n]), Align::right);
    }
    y += row_h;
  }
  // The result stands below what it is made of, also where the panel is much taller.
  draw_text(ui, list, ui.fonts.bold, area.x, std::min(y + ui.px(5), area.bottom() - ui.px(18)), area.w,
            steps.naive_fails ? c.warning : c.text,
            "O = " + value_text(steps.naive_o) + (steps.naive_fails ? ": lost" : ""), Align::right);
}

}  // namespace

void softmax_panel(const Ui& ui, const Rect& area, AppState& state, const SoftmaxSteps& steps) {
  ImDrawList* list = begin_panel(ui, "softmax", area);
  const Palette& c = *ui.colors;
  SoftmaxChoice& choice = state.softmax;
  const Rect inner = {area.x + ui.px(12), area.y + ui.px(8), area.w - ui.px(24), area.h - ui.px(18)};
  buttons(ui, inner.right(), choice);

  // A low panel gives its height to the tables first: what they end with is the point.
  const float cells_h = std::clamp(inner.h - ui.px(330), std::min(ui.px(84), inner.h * 0.34f), ui.px(170)),
              cells_y = ImGui::GetCursorScreenPos().y + ui.px(4);
  score_cells(ui, list, {inner.x, cells_y, inner.w, cells_h}, choice, steps);

  float y = cells_y + cells_h + ui.px(10);
  ImGui::SetCursorScreenPos({inner.x, y});
  const int tiles = static_cast<int>(steps.steps.size());
  if (ImGui::Button("◀ tile")) choice.tiles = std::max(0, choice.tiles - 1);
  ImGui::SameLine(0, ui.px(4));
  if (ImGui::Button("next tile ▶")) choice.tiles = std::min(tiles, choice.tiles + 1);
  ImGui::SameLine(0, ui.px(12));
  ImGui::Text("%d of %d tiles", std::min(choice.tiles, tiles), tiles);
  y += ui.px(32);
  equations(ui, list, {inner.x, y, inner.w, ui.px(88)}, choice, steps);
  y += ui.px(96);
  fill(list, {inner.x, y - ui.px(5), inner.w, 1}, c.line);

  const bool narrow = inner.w < ui.px(480);  // the equations say what the table's last line does
  const float naive_w =
      narrow ? inner.w : std::clamp(inner.w * 0.42f, std::min(ui.px(252), inner.w * 0.5f), ui.px(270));
  const float left_w = inner.w - naive_w - ui.px(24);
  const float below =
      narrow ? y - ui.px(8) : table(ui, list, {inner.x, y, left_w, inner.bottom() - y - ui.px(22)}, choice, steps);
  if (choice.tiles == tiles && !narrow)
    draw_text(ui, list, ui.fonts.bold, inner.x, std::min(below + ui.px(5), inner.bottom() - ui.px(18)), left_w,
              std::fabs(steps.o - steps.reference_o) <= 1e-12 * std::max(1.0, std::fabs(steps.o)) ? c.good : c.text,
              "O = acc / ℓ = " + value_text(steps.o) + ";  plain softmax: " + value_text(steps.reference_o));
  naive(ui, list, {inner.right() - naive_w, y, naive_w, inner.bottom() - y}, choice, steps);
  choice = clamp(choice);
  end_panel();
}

}  // namespace flashscope::viz
