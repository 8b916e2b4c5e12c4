#include "viz/panels/panels.h"
#include "viz/render/plot.h"

namespace flashscope::viz {
namespace {

/// A row of buttons, one of them on.
template <class Which>
void choose(const Ui& ui, const char* label, const std::vector<Entry<Which>>& list, Which& current) {
  ImGui::AlignTextToFramePadding();
  ImGui::TextDisabled("%s", label);
  for (const Entry<Which>& entry : list) {
    ImGui::SameLine(0, ui.px(4));
    const bool on = entry.which == current;
    if (on) ImGui::PushStyleColor(ImGuiCol_Button, with_alpha(ui.colors->text_dim, 0.45));
    if (ImGui::Button(entry.title)) current = entry.which;
    if (on) ImGui::PopStyleColor();
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", entry.what);
  }
}

}  // namespace

Request sweep_panel(const Ui& ui, const Rect& area, AppState& state, const Figure& figure, double progress,
                    bool is_part) {
  Request request = Request::none;
  ImDrawList* list = begin_panel(ui, "sweep", area);
  ImGui::PushFont(ui.fonts.small);
  choose(ui, "over", sweep_overs(), state.sweep.over);
  // On the same line where that has room for all of its buttons.
  float needed = ui.px(22) + text_width(ui.fonts.small, "show");
  for (const Entry<SweepShow>& entry : sweep_shows())
    needed += text_width(ui.fonts.small, entry.title) + 2 * ImGui::GetStyle().FramePadding.x + ui.px(4);
  if (ImGui::GetItemRectMax().x + needed < area.right() - ui.px(8)) ImGui::SameLine(0, ui.px(22));
  choose(ui, "show", sweep_shows(), state.sweep.show);
  const float top = ImGui::GetCursorScreenPos().y + ui.px(4);
  const bool is_stopped = is_part && progress >= 1;
  const float bar_h = progress < 1 || is_stopped ? ui.px(28) : 0;
  draw_figure(ui, list, {area.x + ui.px(12), top, area.w - ui.px(24), area.bottom() - top - ui.px(10) - bar_h}, figure);
  if (progress < 1) {
    ImGui::SetCursorScreenPos({area.x + ui.px(12), area.bottom() - ui.px(30)});
    ImGui::ProgressBar(static_cast<float>(progress), {area.w - ui.px(100), ui.px(20)}, "simulating");
    ImGui::SameLine();
    if (ImGui::Button("Cancel")) request = Request::cancel;
  } else if (is_stopped) {
    draw_text(ui, list, ui.fonts.small, area.x + ui.px(12), area.bottom() - ui.px(28), area.w - ui.px(100), ui.colors->warning,
              "Stopped: some points are missing.");
    ImGui::SetCursorScreenPos({area.right() - ui.px(82), area.bottom() - ui.px(30)});
    if (ImGui::Button("Go on", {ui.px(70), 0})) request = Request::resume;
  }
  ImGui::PopFont();
  end_panel();
  return request;
}

}  // namespace flashscope::viz
