#include <utility>

#include "viz/panels/panels.h"
#include "viz/render/tile_map.h"

namespace flashscope::viz {
namespace {

void line(const Ui& ui, const char* key, const char* meaning) {
  ImGui::PushFont(ui.fonts.bold);
  ImGui::TextUnformatted(key);
  ImGui::PopFont();
  ImGui::SameLine(ui.px(130));
  ImGui::TextUnformatted(meaning);
}

}  // namespace

void help_panel(const Ui& ui, const Rect& window, AppState& state) {
  if (!state.show_help) return;
  const float w = std::min(ui.px(620), window.w), h = std::min(ui.px(440), window.h);
  ImGui::SetNextWindowPos({window.x + (window.w - w) / 2, window.y + (window.h - h) / 2});
  ImGui::SetNextWindowSize({w, h});
  ImGui::SetNextWindowFocus();
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {ui.px(24), ui.px(18)});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, ui.px(1));
  ImGui::PushStyleColor(ImGuiCol_WindowBg, ui.colors->box);
  ImGui::Begin("help", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings);
  ImGui::PushFont(ui.fonts.title);
  ImGui::TextUnformatted("Keys");
  ImGui::PopFont();
  line(ui, "Space", "play or pause");
  line(ui, "←  →", "step back, step: to the previous or next event of SM 0");
  line(ui, "B  N", "previous or next stall of SM 0");
  line(ui, "Home  End", "to the start, to the end");
  line(ui, "↓  ↑", "slower, faster");
  line(ui, "T", "light or dark");
  line(ui, "F2", "save a picture of the window");
  line(ui, "F1  Esc", "this help, close it");
  line(ui, "Ctrl+Q", "quit");
  ImGui::Dummy({0, ui.px(8)});
  ImGui::PushFont(ui.fonts.title);
  ImGui::TextUnformatted("Tiles");
  ImGui::PopFont();
  ImDrawList* list = ImGui::GetWindowDrawList();
  const std::pair<TileState, const char*> states[] = {
      {TileState::untouched, "not used yet"},
      {TileState::reading, "moving now: read or written by some SM"},
      {TileState::read, "used, or written"},
      {TileState::skipped, "never used: the mask leaves nothing of it"}};
  for (const auto& [tile_state, meaning] : states) {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    TileMap one{Tensor::K, 1, 1, {{tile_state, false, false}}};
    draw_tile_map(ui, list, {at.x, at.y + ui.px(2), ui.px(16), ui.px(16)}, one, MapView::state, "help");
    ImGui::Dummy({ui.px(22), ui.px(20)});
    ImGui::SameLine();
    ImGui::TextUnformatted(meaning);
  }
  ImGui::Dummy({0, ui.px(8)});
  ImGui::PushTextWrapPos(w - ui.px(24));
  ImGui::TextUnformatted(
      "The width of a link is its bandwidth, its fill is use. L2 shows the tiles it holds; full colour: written and "
      "not yet "
      "in HBM. The timeline shows why SM 0's CTAs spent their time. Sizes are decimal: 1 MB is 1,000,000 bytes.");
  ImGui::PopTextWrapPos();
  ImGui::End();
  ImGui::PopStyleColor();
  ImGui::PopStyleVar(2);
}

}  // namespace flashscope::viz
