#include <algorithm>
#include <cmath>

#include "viz/core/link_use.h"
#include "viz/core/span_names.h"
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

/// The part of the run that is shown, and where it is drawn.
struct Window {
  Rect area;
  double begin = 0, end = 1;  // picoseconds
  float x_of(double t) const { return area.x + area.w * static_cast<float>((t - begin) / (end - begin)); }
  double t_at(float x) const { return begin + (end - begin) * static_cast<double>((x - area.x) / area.w); }
};

/// One slot as a row of pixels, each in the colour of the reason that takes most of it.
void slot_row(const Ui& ui, ImDrawList* list, const Window& window, float y, float h, const StageTrace& trace,
              const SlotTrack& track) {
  const Rect row = {window.area.x, y, window.area.w, h};
  fill(list, row, ui.colors->of(Reason::idle));
  const int columns = std::max(1, static_cast<int>(row.w));
  const double per_column = (window.end - window.begin) / columns;
  const OpSpan* first = trace.last_begun(track, static_cast<Picoseconds>(window.begin));
  std::size_t n = first ? static_cast<std::size_t>(first - trace.spans().data()) : track.first;
  int run_begin = 0;
  Color run_color = 0;
  const auto flush = [&](int end) {
    if (run_color != 0 && end > run_begin)
      fill(list, {row.x + static_cast<float>(run_begin), row.y, static_cast<float>(end - run_begin), row.h}, run_color);
    run_begin = end;
  };
  for (int column = 0; column < columns; ++column) {
    const double from = window.begin + column * per_column, to = from + per_column;
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

/// A link as a strip whose filled height is use.
void link_row(const Ui& ui, ImDrawList* list, const Window& window, float y, float h, const std::vector<float>& use,
              Color color) {
  fill(list, {window.area.x, y, window.area.w, h}, mixed(color, ui.colors->panel, 0.12));
  for (std::size_t n = 0; n < use.size();) {
    std::size_t next = n + 1;  // equal neighbours in one rectangle
    while (next < use.size() && std::fabs(use[next] - use[n]) * h < 0.25f) ++next;
    const float filled = h * use[n];
    if (filled > 0.2f)
      fill(list, {window.area.x + static_cast<float>(n), y + h - filled, static_cast<float>(next - n), filled}, color);
    n = next;
  }
}

/// Spans wide enough to read say what they do, in the longest words that fit.
void slot_labels(const Ui& ui, ImDrawList* list, const Window& window, float y, float h, const StageTrace& trace,
                 const SlotTrack& track) {
  if (h < ui.px(13)) return;
  const OpSpan* first = trace.last_begun(track, static_cast<Picoseconds>(window.begin));
  for (std::size_t n = first ? static_cast<std::size_t>(first - trace.spans().data()) : track.first; n < track.last;
       ++n) {
    const OpSpan& span = trace.spans()[n];
    if (static_cast<double>(span.begin) > window.end) break;
    const float from = std::max(window.area.x, window.x_of(static_cast<double>(span.begin)));
    const float to = std::min(window.area.right(), window.x_of(static_cast<double>(span.end)));
    const float room = to - from - ui.px(6);
    if (room < ui.px(8)) continue;
    for (const std::string& name : span_names(what_happens(trace, span))) {
      if (text_width(ui.fonts.small, name) > room) continue;
      draw_text(ui, list, ui.fonts.small, from + ui.px(3), y + (h - ui.px(16)) / 2, room,
                ui.colors->ink_on(ui.colors->of(span.reason)), name, Align::center);
      break;
    }
  }
}

/// A round number of picoseconds that gives at most `marks` marks.
double mark_distance(double length, int marks) {
  double distance = std::pow(10.0, std::floor(std::log10(length / marks)));
  for (double factor : {1.0, 2.0, 5.0, 10.0})
    if (length / (distance * factor) <= marks) return distance * factor;
  return distance * 10;
}

/// Every reason that either run spends time on, and the two links, which have rows of their own: no colour is without its
/// name.
std::vector<Reason> reasons_of(const Results& results) {
  std::vector<Reason> list;
  for (int r = 0; r < kNumReasons; ++r) {
    const auto spent = [r](const auto& stage) {
      if (!stage) return false;
      const auto& kernels = stage->prediction().kernels;
      return std::any_of(kernels.begin(), kernels.end(), [r](const KernelPrediction& kernel) {
        return kernel.reasons[static_cast<std::size_t>(r)] > 0;
      });
    };
    const auto reason = static_cast<Reason>(r);
    if (reason == Reason::hbm || reason == Reason::l2 ||
        std::any_of(results.stage.begin(), results.stage.end(), spent))
      list.push_back(reason);
  }
  return list;
}

/// The legend in one line or several, none longer than `room`.
std::vector<std::vector<Reason>> legend_lines(const Ui& ui, const std::vector<Reason>& reasons, float room,
                                              float* longest) {
  std::vector<std::vector<Reason>> lines(1);
  float w = 0;
  *longest = 0;
  for (Reason reason : reasons) {
    const float own = text_width(ui.fonts.small, title_of(reason)) + ui.px(26);
    if (w + own > room && !lines.back().empty()) {
      lines.emplace_back();
      w = 0;
    }
    lines.back().push_back(reason);
    w += own;
    *longest = std::max(*longest, w);
  }
  return lines;
}

void legend_line(const Ui& ui, ImDrawList* list, float x, float y, const std::vector<Reason>& reasons) {
  for (Reason reason : reasons) {
    fill(list, {x, y + ui.px(3), ui.px(10), ui.px(10)}, ui.colors->of(reason), ui.px(1));
    outline(list, {x, y + ui.px(3), ui.px(10), ui.px(10)}, ui.colors->line, ui.px(1));
    x += ui.px(14);
    const std::string name = title_of(reason);
    const float w = text_width(ui.fonts.small, name);
    draw_text(ui, list, ui.fonts.small, x, y, w + 1, ui.colors->text_dim, name);
    if (ImGui::IsWindowHovered() && ImGui::IsMouseHoveringRect({x - ui.px(14), y}, {x + w, y + ui.px(16)}))
      ImGui::SetTooltip("%s", meaning_of(reason).c_str());
    x += w + ui.px(12);
  }
}

/// Beside the clock in one line or two, where there is room from `left` on; else across the panel, below the buttons.
/// Whole in any case. Returns the height that it adds to the head of the panel; `begin`: where it begins beside the
/// clock.
float legend(const Ui& ui, ImDrawList* list, const Rect& area, float left, float y, const Results& results,
             float* begin) {
  const std::vector<Reason> reasons = reasons_of(results);
  const float right = area.right() - ui.px(12);
  float longest = 0;
  *begin = right;
  if (reasons.empty()) return 0;
  auto lines = legend_lines(ui, reasons, right - left, &longest);
  if (lines.size() == 2) {  // two about equal ones, at the right
    float half = longest * static_cast<float>(reasons.size() / 2 + 1) / static_cast<float>(reasons.size());
    float line_w = 0;  // what the lines then take
    while (half < longest && legend_lines(ui, reasons, half, &line_w).size() > 2) half += std::max(1.0f, ui.px(10));
    lines = legend_lines(ui, reasons, std::min(right - left, half + ui.px(1)), &longest);
  }
  if (lines.size() <= 2 && longest <= right - left) {
    *begin = right - longest;
    const float line_h = ui.px(14), top = lines.size() == 1 ? y : y - ui.px(12);  // above the clock's mark
    for (std::size_t n = 0; n < lines.size(); ++n)
      legend_line(ui, list, *begin, top + static_cast<float>(n) * line_h, lines[n]);
    return 0;
  }
  lines = legend_lines(ui, reasons, area.w - ui.px(24), &longest);
  for (std::size_t n = 0; n < lines.size(); ++n)
    legend_line(ui, list, area.x + ui.px(12), y + ui.px(22) + static_cast<float>(n) * ui.px(16), lines[n]);
  return static_cast<float>(lines.size()) * ui.px(16) + ui.px(6);  // the clock's mark stands between it and the rows
}

/// The units of an SM that either run spends time on.
std::vector<Reason> units_of(const Results& results) {
  std::vector<Reason> units;
  for (Reason unit : {Reason::smem, Reason::tensor, Reason::fma, Reason::exp})
    if (std::any_of(results.stage.begin(), results.stage.end(), [&](const auto& stage) {
          return stage && std::any_of(stage->prediction().kernels.begin(), stage->prediction().kernels.end(),
                                      [&](const KernelPrediction& kernel) {
                                        return kernel.reasons[static_cast<std::size_t>(unit)] > 0;
                                      });
        }))
      units.push_back(unit);
  return units;
}

/// What the span under the mouse is.
void span_tip(const StageTrace& trace, const SlotTrack& track, double t) {
  const OpSpan* span = trace.span_at(track, static_cast<Picoseconds>(t));
  if (!span) return;
  std::string text = what_happens(trace, *span) + "\n" + title_of(*span) + ": " +
                     time_text(static_cast<double>(span->end - span->begin) / 1e6) + ", from " +
                     time_text(static_cast<double>(span->begin) / 1e6) + "\nSM " + std::to_string(span->sm) + ", CTA " +
                     grouped(span->cta);
  if (span->op.bytes > 0) text += ", " + size_text(static_cast<double>(span->op.bytes));
  if (span->hbm_bytes > 0) text += ", of it " + size_text(static_cast<double>(span->hbm_bytes)) + " from HBM";
  if (const std::string remark = remark_on(*span); !remark.empty()) text += "\n" + remark;
  const int folded = folded_warpgroups(trace.schedule().kernels()[static_cast<std::size_t>(span->kernel)]);
  if (folded > 1)
    text += "\n" + std::to_string(folded) + " warpgroups in one row: products whole, of the rest\n" +
            "what the products of another do not cover";
  ImGui::SetTooltip("%s", text.c_str());
}

/// Wheel: closer and farther around the mouse; Shift+wheel, a sideways wheel and a drag with the right button: along.
void zoom_and_pan(const Window& window, TimeWindow& shown, double duration) {
  const ImGuiIO& io = ImGui::GetIO();
  const double around = window.t_at(io.MousePos.x) / duration, width = shown.end - shown.begin;
  const float sideways = io.MouseWheelH + (io.KeyShift ? io.MouseWheel : 0);
  if (sideways != 0)
    shown = panned(shown, -0.1 * width * static_cast<double>(sideways));
  else if (io.MouseWheel != 0)
    shown = zoomed(shown, std::pow(0.8, static_cast<double>(io.MouseWheel)), around);
  if (io.MouseDown[1] && io.MouseDelta.x != 0)
    shown = panned(shown, -width * static_cast<double>(io.MouseDelta.x / window.area.w));
}

}  // namespace

std::optional<Action> timeline_panel(const Ui& ui, const Rect& area, AppState& state, const Results& results,
                                     const std::array<std::optional<double>, 2>& recorded_us) {
  ImDrawList* list = begin_panel(ui, "timeline", area);
  const Palette& c = *ui.colors;
  const auto duration = static_cast<double>(results.duration);
  std::optional<Action> pressed;
  const auto button = [&](const char* id, Icon icon, Command command) {
    if (icon_button(ui, id, icon, tip_of(command).c_str())) pressed = Action(command);
  };
  button("##stall-", Icon::previous_stall, Command::previous_stall);
  button("##back", Icon::step_back, Command::step_back);
  button("##play", state.playback.playing ? Icon::pause : Icon::play, Command::play_pause);
  button("##forward", Icon::step_forward, Command::step_forward);
  button("##stall+", Icon::next_stall, Command::next_stall);
  ImGui::SameLine(0, ui.px(14));
  button("##slower", Icon::slower, Command::slower);
  button("##faster", Icon::faster, Command::faster);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const std::string clock = clock_text(static_cast<double>(state.playback.t) / 1e6, duration / 1e6);
  float x = at.x + ui.px(10);
  x += draw_text(ui, list, ui.fonts.bold, x, at.y + ui.px(3), ui.px(260), c.text, clock) + ui.px(14);
  std::string pace_text = "1 s shows " + time_text(pace(state.playback, results.duration) / 1e6);
  if (state.timeline.end - state.timeline.begin < 1)
    pace_text += ", zoomed " + three_digits(1 / (state.timeline.end - state.timeline.begin)) + " ×";
  float legend_x = 0;
  const float head_h = ui.px(40) + legend(ui, list, area, x, at.y + ui.px(5), results, &legend_x);
  if (x + text_width(ui.fonts.small, pace_text) < legend_x)  // a narrow timeline has no room for both
    draw_text(ui, list, ui.fonts.small, x, at.y + ui.px(5), ui.px(230), c.text_dim, pace_text);

  // Algorithm by algorithm over one axis of time: the links' use, then the slots of SM 0.
  const auto folds = [](const auto& stage) { return stage && folded_warpgroups(stage->schedule()) > 1; };
  const float label_w = ui.px(folds(results.stage[0]) || folds(results.stage[1]) ? 136 : 104);
  const Rect rows = {area.x + label_w, area.y + head_h, area.w - label_w - ui.px(14), area.h - head_h - ui.px(20)};
  if (results.duration <= 0 || rows.empty()) {
    end_panel();
    return pressed;
  }
  Window window{rows, state.timeline.begin * duration, state.timeline.end * duration};
  // The same algorithm twice is one run: its rows stand once.
  const bool one_run = results.settings.algorithms[0] == results.settings.algorithms[1];
  const float half = rows.h / (one_run ? 1 : 2), mouse_y = ImGui::GetIO().MousePos.y;
  const SlotTrack* hovered = nullptr;
  const StageTrace* hovered_trace = nullptr;
  for (std::size_t which = 0; which < (one_run ? 1U : 2U); ++which) {
    const float top = rows.y + static_cast<float>(which) * half;
    const auto& stage = results.stage[which];
    if (!stage) continue;
    const int folded = folded_warpgroups(stage->schedule());
    const std::string folds_text = folded > 1 ? ", " + std::to_string(folded) + " warpgroups a row" : "";
    const std::string heading =
        stage->schedule().algorithm() + ": links of the GPU, units and CTAs of SM 0" + folds_text;
    if (state.tall_timeline)
      draw_text(ui, list, ui.fonts.bold, area.x + ui.px(10), top - ui.px(2), area.w - ui.px(20), c.text,
                text_width(ui.fonts.bold, heading) <= area.w - ui.px(20)
                    ? heading
                    : stage->schedule().algorithm() + ": links, units, CTAs" + folds_text);
    else
      draw_text(ui, list, ui.fonts.small, area.x + ui.px(10), top - ui.px(1), label_w - ui.px(14), c.text,
                stage->schedule().algorithm());
    const LinkUse use = link_use(*stage, window.begin, window.end, static_cast<int>(rows.w));
    const std::vector<Reason> units = state.tall_timeline ? units_of(results) : std::vector<Reason>{};
    const auto num_strips = static_cast<float>(2 + units.size());
    const float link_h = std::max(2.0f, std::floor(std::min(half * (state.tall_timeline ? 0.55f / num_strips : 0.18f),
                                                            ui.px(state.tall_timeline ? 24 : 200))));
    float strips_y = top + (state.tall_timeline ? ui.px(19) : 0);
    const auto strip = [&](const std::vector<float>& share, Reason unit) {
      link_row(ui, list, window, strips_y, link_h, share, c.of(unit));
      if (state.tall_timeline && link_h >= ui.px(12))
        draw_text(ui, list, ui.fonts.small, rows.x - ui.px(54), strips_y + (link_h - ui.px(16)) / 2, ui.px(48),
                  c.text_dim, title_of(unit), Align::right);
      strips_y += link_h + 1;
    };
    strip(use.hbm, Reason::hbm);
    strip(use.l2, Reason::l2);
    if (!units.empty()) {
      const UnitUse shares = unit_use(*stage, 0, window.begin, window.end, static_cast<int>(rows.w));
      for (Reason unit : units) strip(shares[static_cast<std::size_t>(unit)], unit);
    }
    std::vector<const SlotTrack*> slots;
    for (const SlotTrack& track : stage->tracks())
      if (track.sm == 0) slots.push_back(&track);
    const float slots_top = strips_y + 1;
    const float slot_h = std::min(
        (half - ui.px(4) - (slots_top - top)) / static_cast<float>(std::max<std::size_t>(1, slots.size())), ui.px(88));
    for (std::size_t n = 0; n < slots.size(); ++n) {
      const float y = slots_top + static_cast<float>(n) * slot_h, h = std::max(1.0f, slot_h - 1);
      slot_row(ui, list, window, y, h, *stage, *slots[n]);
      slot_labels(ui, list, window, y, h, *stage, *slots[n]);
      if (mouse_y >= y && mouse_y < y + slot_h) {
        hovered = slots[n];
        hovered_trace = stage.get();
      }
    }
    if (!slots.empty())
      draw_text(ui, list, ui.fonts.small, area.x + ui.px(10), top + ui.px(14), label_w - ui.px(14), c.text_dim,
                state.tall_timeline ? "" : half > ui.px(30) ? "HBM, L2, SM 0" : "");
    if (!slots.empty() && folded > 1 && !state.tall_timeline && half > ui.px(40))
      draw_text(ui, list, ui.fonts.small, area.x + ui.px(10), top + ui.px(28), label_w - ui.px(14), c.text_dim,
                std::to_string(folded) + " warpgroups a row");
    if (state.tall_timeline && !slots.empty())
      draw_text(ui, list, ui.fonts.small, rows.x - ui.px(54), slots_top, ui.px(48), c.text_dim, "CTAs", Align::right);
    if (recorded_us[which]) {
      const float mx = window.x_of(*recorded_us[which] * 1e6);
      const std::string text = "measured " + time_text(*recorded_us[which]);
      const bool inside = mx >= rows.x && mx <= rows.right();
      if (inside) fill(list, {mx - ui.px(1), top, ui.px(2), half - ui.px(3)}, c.warning);
      const float w = text_width(ui.fonts.small, text) + ui.px(12);
      if (inside || mx > rows.right()) {
        const float tx = inside ? std::min(mx + ui.px(4), rows.right() - w) : rows.right() - w;
        fill(list, {tx, slots_top, w, ui.px(16)}, with_alpha(c.panel, 0.85), ui.px(2));
        draw_text(ui, list, ui.fonts.small, tx + ui.px(3), slots_top, w, c.warning, inside ? text : text + " →");
      }
    }
  }
  // As many as leave their labels apart: three digits and a unit, in whatever size the type has.
  const float mark_w = text_width(ui.fonts.small, "0.000 µs") + ui.px(14);
  const double marks = mark_distance(window.end - window.begin, std::clamp(static_cast<int>(rows.w / mark_w), 2, 12));
  for (double t = std::ceil(window.begin / marks) * marks; t <= window.end * (1 + 1e-9); t += marks) {
    const float mx = window.x_of(t);
    fill(list, {mx, rows.bottom() - ui.px(2), 1, ui.px(4)}, c.text_dim);
    const std::string label = time_text(t / 1e6);
    const float w = text_width(ui.fonts.small, label);
    draw_text(ui, list, ui.fonts.small, std::min(mx - w / 2, area.right() - ui.px(6) - w), rows.bottom() + ui.px(2),
              w + 1, c.text_dim, label);
  }

  ImGui::SetCursorScreenPos({rows.x, rows.y});
  ImGui::InvisibleButton("##scrub", {rows.w, rows.h});
  const bool over = ImGui::IsItemHovered();
  if (ImGui::IsItemActive()) {
    const double t = std::clamp(window.t_at(ImGui::GetIO().MousePos.x), 0.0, duration);
    state.playback.playing = false;
    state.playback = scrub(state.playback, std::llround(t), results.duration);
  } else if (over) {
    zoom_and_pan(window, state.timeline, duration);
    if (hovered) span_tip(*hovered_trace, *hovered, window.t_at(ImGui::GetIO().MousePos.x));
    if (ImGui::IsMouseDoubleClicked(1)) state.timeline = {};
  }
  const float now = window.x_of(static_cast<double>(state.playback.t));
  if (now >= rows.x - 1 && now <= rows.right() + 1) {
    fill(list, {now - ui.px(1), rows.y - ui.px(5), ui.px(2), rows.h + ui.px(7)}, c.accent);
    list->AddTriangleFilled({now - ui.px(5), rows.y - ui.px(8)}, {now + ui.px(5), rows.y - ui.px(8)},
                            {now, rows.y - ui.px(1)}, c.accent);
  }
  end_panel();
  return pressed;
}

}  // namespace flashscope::viz
