#include <algorithm>
#include <cmath>

#include "viz/core/text.h"
#include "viz/panels/panels.h"

namespace flashscope::viz {
namespace {

enum class Icon { play, pause, step_forward, step_back, next_stall, previous_stall, slower, faster };

void triangle(ImDrawList* list, float x, float y, float size, bool right, Color color) {
  const float half = size * 0.6f;
  if (right)
    list->AddTriangleFilled({x - size / 2, y - half}, {x + size / 2, y}, {x - size / 2, y + half}, color);
  else
    list->AddTriangleFilled({x + size / 2, y - half}, {x - size / 2, y}, {x + size / 2, y + half}, color);
}

bool icon_button(const Ui& ui, const char* id, Icon icon, const char* tip) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float w = ui.px(30), h = ui.px(24);
  const bool pressed = ImGui::Button(id, {w, h});
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", tip);
  ImDrawList* list = ImGui::GetWindowDrawList();
  const Color ink = ui.colors->text;
  const float x = at.x + w / 2, y = at.y + h / 2, s = ui.px(9);
  const auto bar = [&](float left) { fill(list, {left, y - s * 0.6f, ui.px(2.5f), s * 1.2f}, ink); };
  switch (icon) {
    case Icon::play: triangle(list, x + ui.px(1), y, ui.px(11), true, ink); break;
    case Icon::pause:
      bar(x - ui.px(5));
      bar(x + ui.px(2));
      break;
    case Icon::step_forward:
      triangle(list, x - ui.px(2), y, s, true, ink);
      bar(x + ui.px(4));
      break;
    case Icon::step_back:
      triangle(list, x + ui.px(2), y, s, false, ink);
      bar(x - ui.px(7));
      break;
    case Icon::next_stall:
      triangle(list, x - ui.px(5), y, s * 0.8f, true, ink);
      triangle(list, x + ui.px(3), y, s * 0.8f, true, ink);
      break;
    case Icon::previous_stall:
      triangle(list, x - ui.px(4), y, s * 0.8f, false, ink);
      triangle(list, x + ui.px(4), y, s * 0.8f, false, ink);
      break;
    case Icon::slower: fill(list, {x - ui.px(5), y - ui.px(1), ui.px(10), ui.px(2.5f)}, ink); break;
    case Icon::faster:
      fill(list, {x - ui.px(5), y - ui.px(1), ui.px(10), ui.px(2.5f)}, ink);
      fill(list, {x - ui.px(1), y - ui.px(5), ui.px(2.5f), ui.px(10)}, ink);
      break;
  }
  ImGui::SameLine(0, ui.px(4));
  return pressed;
}

/// One slot as a row of pixels, each in the colour of the reason that takes most of it.
void slot_row(const Ui& ui, ImDrawList* list, const Rect& row, const StageTrace& trace, const SlotTrack& track,
              Picoseconds duration) {
  fill(list, row, ui.colors->of(Reason::idle));
  const int columns = std::max(1, static_cast<int>(row.w));
  const double per_column = static_cast<double>(duration) / columns;
  std::size_t n = track.first;
  int run_begin = 0;
  Color run_color = 0;
  const auto flush = [&](int end) {
    if (run_color != 0 && end > run_begin)
      fill(list, {row.x + static_cast<float>(run_begin), row.y, static_cast<float>(end - run_begin), row.h}, run_color);
    run_begin = end;
  };
  for (int column = 0; column < columns; ++column) {
    const double from = column * per_column, to = from + per_column;
    std::array<double, kNumReasons> share = {};
    for (; n < track.last; ++n) {
      const OpSpan& span = trace.spans()[n];
      if (static_cast<double>(span.begin) >= to) break;
      const double overlap =
          std::min(to, static_cast<double>(span.end)) - std::max(from, static_cast<double>(span.begin));
      if (overlap > 0) share[static_cast<std::size_t>(span.reason)] += overlap;
      if (static_cast<double>(span.end) > to) break;  // it reaches into the next column
    }
    const auto most = std::max_element(share.begin(), share.end());
    const Color color =
        *most * 2 < per_column / kNumReasons ? 0 : ui.colors->reasons[static_cast<std::size_t>(most - share.begin())];
    if (color != run_color) {
      flush(column);
      run_color = color;
    }
  }
  flush(columns);
}

/// A round number of picoseconds that gives at most `marks` marks.
double mark_distance(Picoseconds duration, int marks) {
  double distance = std::pow(10.0, std::floor(std::log10(static_cast<double>(duration) / marks)));
  for (double factor : {1.0, 2.0, 5.0, 10.0})
    if (static_cast<double>(duration) / (distance * factor) <= marks) return distance * factor;
  return distance * 10;
}

void legend(const Ui& ui, ImDrawList* list, float right, float y, const Results& results) {
  std::array<bool, kNumReasons> present = {};
  for (const auto& stage : results.stage)
    if (stage)
      for (const KernelPrediction& kernel : stage->prediction().kernels)
        for (int r = 0; r < kNumReasons; ++r)
          present[static_cast<std::size_t>(r)] |= kernel.reasons[static_cast<std::size_t>(r)] > 0;
  float x = right;
  for (int r = kNumReasons - 1; r >= 0; --r) {
    if (!present[static_cast<std::size_t>(r)]) continue;
    const Reason reason = static_cast<Reason>(r);
    const std::string name = name_of(reason);
    const float w = text_width(ui.fonts.small, name);
    x -= w;
    draw_text(ui, list, ui.fonts.small, x, y, w + 1, ui.colors->text_dim, name);
    x -= ui.px(14);
    fill(list, {x, y + ui.px(3), ui.px(10), ui.px(10)}, ui.colors->of(reason), ui.px(1));
    x -= ui.px(12);
  }
}

}  // namespace

void timeline_panel(const Ui& ui, const Rect& area, AppState& state, const Results& results) {
  ImDrawList* list = begin_panel(ui, "timeline", area);
  const Palette& c = *ui.colors;
  const Picoseconds duration = results.duration;
  const auto press = [&](Command command) { state = apply(command, state, results); };

  if (icon_button(ui, "##stall-", Icon::previous_stall, "previous stall of SM 0  (B)")) press(Command::previous_stall);
  if (icon_button(ui, "##back", Icon::step_back, "step back  (←)")) press(Command::step_back);
  if (icon_button(ui, "##play", state.playback.playing ? Icon::pause : Icon::play, "play or pause  (Space)"))
    press(Command::play_pause);
  if (icon_button(ui, "##forward", Icon::step_forward, "step  (→)")) press(Command::step_forward);
  if (icon_button(ui, "##stall+", Icon::next_stall, "next stall of SM 0  (N)")) press(Command::next_stall);
  ImGui::SameLine(0, ui.px(14));
  if (icon_button(ui, "##slower", Icon::slower, "slower  (↓)")) press(Command::slower);
  if (icon_button(ui, "##faster", Icon::faster, "faster  (↑)")) press(Command::faster);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const double us = static_cast<double>(state.playback.t) / 1e6, all = static_cast<double>(duration) / 1e6;
  char clock[96];
  std::snprintf(clock, sizeof clock, "%.3f of %.3f µs", us, all);
  float x = at.x + ui.px(10);
  x += draw_text(ui, list, ui.fonts.bold, x, at.y + ui.px(3), ui.px(260), c.text, clock) + ui.px(14);
  const std::string speed = "1 s shows " + time_text(pace(state.playback, duration) / 1e6);
  draw_text(ui, list, ui.fonts.small, x, at.y + ui.px(5), ui.px(180), c.text_dim, speed);
  legend(ui, list, area.right() - ui.px(12), at.y + ui.px(5), results);

  // Rows: the slots of SM 0, algorithm by algorithm, over one axis of time.
  const float label_w = ui.px(104);
  const Rect rows = {area.x + label_w, area.y + ui.px(40), area.w - label_w - ui.px(14),
                     area.h - ui.px(40) - ui.px(20)};
  if (duration <= 0 || rows.empty()) return end_panel();
  const float half = rows.h / 2;
  for (std::size_t which = 0; which < 2; ++which) {
    const float top = rows.y + static_cast<float>(which) * half;
    const auto& stage = results.stage[which];
    if (!stage) continue;
    draw_text(ui, list, ui.fonts.small, area.x + ui.px(10), top + (half - ui.px(4)) / 2 - ui.px(8), label_w - ui.px(14),
              c.text, stage->schedule().algorithm());
    std::vector<const SlotTrack*> slots;
    for (const SlotTrack& track : stage->tracks())
      if (track.sm == 0) slots.push_back(&track);
    const float slot_h = (half - ui.px(4)) / static_cast<float>(std::max<std::size_t>(1, slots.size()));
    for (std::size_t n = 0; n < slots.size(); ++n)
      slot_row(ui, list, {rows.x, top + static_cast<float>(n) * slot_h, rows.w, std::max(1.0f, slot_h - 1)}, *stage,
               *slots[n], duration);
  }
  const double marks = mark_distance(duration, 12);
  for (double t = 0; t <= static_cast<double>(duration) + 1; t += marks) {
    const float mx = rows.x + rows.w * static_cast<float>(t / static_cast<double>(duration));
    fill(list, {mx, rows.bottom() - ui.px(2), 1, ui.px(4)}, c.text_dim);
    const float w = ui.px(60);
    if (mx + w / 2 < area.right())
      draw_text(ui, list, ui.fonts.small, mx - w / 2, rows.bottom() + ui.px(2), w, c.text_dim, time_text(t / 1e6),
                Align::center);
  }
  draw_text(ui, list, ui.fonts.small, area.x + ui.px(10), rows.bottom() + ui.px(2), label_w, c.text_dim, "SM 0");

  ImGui::SetCursorScreenPos({rows.x, rows.y});
  ImGui::InvisibleButton("##scrub", {rows.w, rows.h});
  if (ImGui::IsItemActive()) {
    const double share = (ImGui::GetIO().MousePos.x - rows.x) / rows.w;
    state.playback.playing = false;
    state.playback =
        scrub(state.playback, std::llround(std::clamp(share, 0.0, 1.0) * static_cast<double>(duration)), duration);
  }
  const float now =
      rows.x + rows.w * static_cast<float>(static_cast<double>(state.playback.t) / static_cast<double>(duration));
  fill(list, {now - ui.px(1), rows.y - ui.px(5), ui.px(2), rows.h + ui.px(7)}, c.accent);
  list->AddTriangleFilled({now - ui.px(5), rows.y - ui.px(8)}, {now + ui.px(5), rows.y - ui.px(8)},
                          {now, rows.y - ui.px(1)}, c.accent);
  end_panel();
}

}  // namespace flashscope::viz
