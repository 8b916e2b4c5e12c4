#include "viz/core/commands.h"
#include "viz/panels/panels.h"

namespace flashscope::viz {
namespace {

/// A tab: its name, a line below when it is the one shown.
bool tab(const Ui& ui, ImDrawList* list, float& x, const Rect& bar, const char* id, const char* name, bool on,
         ImFont* font, const std::string& tip) {
  const float w = text_width(font, name) + ui.px(16);
  const Rect r = {x, bar.y, w, bar.h};
  ImGui::SetCursorScreenPos({r.x, r.y});
  const bool pressed = ImGui::InvisibleButton(id, {r.w, r.h});
  const bool hovered = ImGui::IsItemHovered();
  if (hovered) {
    fill(list, r, ui.colors->grip);
    ImGui::SetTooltip("%s", tip.c_str());
  }
  draw_text(ui, list, font, r.x + ui.px(8), r.y + (r.h - font->FontSize) / 2 - ui.px(1), w,
            on || hovered ? ui.colors->text : ui.colors->text_dim, name);
  if (on) fill(list, {r.x + ui.px(6), r.bottom() - ui.px(3), r.w - ui.px(12), ui.px(3)}, ui.colors->accent);
  x += w;
  return pressed;
}

}  // namespace

std::optional<Action> top_bar_panel(const Ui& ui, const Rect& area, const AppState& state) {
  ImDrawList* list = begin_panel(ui, "top", area);
  const bool two_rows = area.h > ui.px(48);  // the inspectors have the second
  const Rect row = {area.x, area.y, area.w, two_rows ? area.h / 2 : area.h};
  std::optional<Action> action;
  const Palette& c = *ui.colors;
  float x = area.x + ui.px(10);
  x += draw_text(ui, list, ui.fonts.title, x, row.y + (row.h - ui.fonts.title->FontSize) / 2 - ui.px(1), ui.px(200),
                 c.text, "FlashScope") +
       ui.px(18);
  for (std::size_t n = 0; n < views().size(); ++n) {
    const Action show = {Command::show_view, static_cast<int>(n)};
    const std::string tip = std::string(views()[n].what) + "\n" + tip_of(show);
    if (tab(ui, list, x, row, views()[n].key, views()[n].title, state.view == views()[n].which, ui.fonts.bold, tip))
      action = show;
  }
  if (state.view == View::explore) {
    float tab_x = two_rows ? area.x + ui.px(2) : x + ui.px(18);
    if (!two_rows) fill(list, {x + ui.px(9), area.y + ui.px(8), 1, area.h - ui.px(16)}, c.line);
    const Rect tabs = {area.x, area.bottom() - row.h, area.w, row.h};
    const bool is_shown =
        is_wide(state.inspector) || !state.looks.projector;  // large type leaves no room for a narrow one
    float needed = 0;
    for (const auto& inspector : inspectors()) needed += text_width(ui.fonts.body, inspector.title) + ui.px(16);
    ImFont* font = tab_x + needed <= area.right() ? ui.fonts.body : ui.fonts.small;
    for (std::size_t n = 0; n < inspectors().size(); ++n) {
      const Action show = {Command::show_inspector, static_cast<int>(n)};
      const std::string tip = std::string(inspectors()[n].what) + "\n" + tip_of(show);
      if (tab(ui, list, tab_x, tabs, inspectors()[n].key, inspectors()[n].title,
              state.inspector == inspectors()[n].which && is_shown, font, tip))
        action = show;
    }
    if (!two_rows) x = tab_x;
  }
  // Small buttons at the right, as many as there is room for.
  const struct {
    const char* label;
    Command command;
  } buttons[] = {
      {"?", Command::toggle_help},   {"Theme", Command::toggle_theme}, {"Projector", Command::toggle_projector},
      {"Copy", Command::copy_state}, {"Save", Command::save_picture},  {"Redo", Command::redo},
      {"Undo", Command::undo}};
  float right = area.right() - ui.px(8);
  ImGui::PushFont(ui.fonts.small);
  for (const auto& button : buttons) {
    const float w = text_width(ui.fonts.small, button.label) + ui.px(14), h = ui.px(22);
    if (right - w < x + ui.px(8)) break;
    right -= w;
    ImGui::SetCursorScreenPos({right, row.y + (row.h - h) / 2});
    if (ImGui::Button(button.label, {w, h})) action = Action(button.command);
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", tip_of(button.command).c_str());
    right -= ui.px(4);
  }
  ImGui::PopFont();
  end_panel();
  return action;
}

}  // namespace flashscope::viz
