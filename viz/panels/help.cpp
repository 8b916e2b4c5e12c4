#include <algorithm>
#include <utility>

#include "viz/panels/panels.h"
#include "viz/render/rich_text.h"
#include "viz/render/tile_map.h"

namespace flashscope::viz {
namespace {

/// The first of the keys.
std::string key_text(const std::string& keys) { return keys.substr(0, keys.find(' ')); }

}  // namespace

void help_panel(const Ui& ui, const Rect& window, AppState& state) {
  if (!state.show_help) return;
  const float w = std::min(ui.px(1090), window.w), h = std::min(ui.px(w < ui.px(900) ? 720 : 516), window.h);
  ImGui::SetNextWindowPos({window.x + (window.w - w) / 2, window.y + (window.h - h) / 2});
  ImGui::SetNextWindowSize({w, h});
  ImGui::SetNextWindowFocus();
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {ui.px(24), ui.px(18)});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, ui.px(1));
  ImGui::PushStyleColor(ImGuiCol_WindowBg, ui.colors->box);
  ImGui::Begin("help", nullptr,
               ImGuiWindowFlags_NoTitleBar | ImGuiWindowFlags_NoResize | ImGuiWindowFlags_NoCollapse |
                   ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings);
  // The commands in three columns, group by group; on a small screen in fewer, and the window scrolls.
  const ImVec2 top = ImGui::GetCursorScreenPos();
  const int columns = std::clamp(static_cast<int>((w - ui.px(48)) / ui.px(290)), 1, 3);
  const float column_w = (w - ui.px(48)) / static_cast<float>(columns) - ui.px(10);
  const float key_w = ui.px(92), line_h = ui.px(17);
  ImDrawList* list = ImGui::GetWindowDrawList();
  std::vector<std::string> groups;
  std::vector<CommandInfo> listed;
  for (const CommandInfo& info : commands())
    if (is_offered(info.action.command)) listed.push_back(info);
  for (const CommandInfo& info : listed)
    if (groups.empty() || groups.back() != info.group) groups.emplace_back(info.group);
  float lowest = top.y;
  float y = top.y, x = top.x;
  const float longest = columns == 1 ? 1e6f : line_h * (columns == 2 ? 36 : 20.5f);  // of a column
  for (const std::string& group : groups) {
    float group_h = line_h * 1.4f;
    for (const CommandInfo& info : listed) group_h += group == info.group ? line_h : 0;
    if (y > top.y && y + group_h > top.y + std::max(longest, group_h)) {
      y = top.y;
      x += column_w + ui.px(10);
    }
    draw_text(ui, list, ui.fonts.bold, x, y, column_w, ui.colors->text, group);
    y += line_h * 1.2f;
    for (const CommandInfo& info : listed) {
      if (group != info.group) continue;
      draw_text(ui, list, ui.fonts.small, x, y, key_w - ui.px(6), ui.colors->text, key_text(info.keys));
      draw_text(ui, list, ui.fonts.small, x + key_w, y, column_w - key_w, ui.colors->text_dim, info.what);
      y += line_h;
    }
    y += line_h * 0.4f;
    lowest = std::max(lowest, y);
  }
  ImGui::SetCursorScreenPos({top.x, lowest + ui.px(2)});
  ImGui::PushFont(ui.fonts.bold);
  ImGui::TextUnformatted("Tiles");
  ImGui::PopFont();
  const std::pair<TileCell, const char*> states[] = {
      {{TileState::untouched, false, false}, "not used yet"},
      {{TileState::reading, false, false}, "moving now: read or written by some SM"},
      {{TileState::skipped, false, false}, "never used: the mask leaves nothing of it"},
      {{TileState::read, false, false}, "used, or written"},
      {{TileState::written, true, true}, "written, and so far only in L2"}};
  const ImVec2 samples = ImGui::GetCursorScreenPos();
  const float sample_h = ui.px(21);
  for (std::size_t n = 0; n < std::size(states); ++n) {  // under the columns of the keys
    const auto across = static_cast<std::size_t>(columns);
    const float left = samples.x + static_cast<float>(n % across) * (column_w + ui.px(10));
    const float sample_y = samples.y + static_cast<float>(n / across) * sample_h;
    const TileMap one{Tensor::K, 1, 1, {states[n].first}};
    draw_tile_map(ui, list, {left, sample_y + ui.px(1), ui.px(16), ui.px(16)}, one, MapView::state, "help");
    draw_text(ui, list, ui.fonts.small, left + ui.px(23), sample_y + ui.px(1), column_w - ui.px(23), ui.colors->text,
              states[n].second);
  }
  ImGui::Dummy({0, static_cast<float>((static_cast<int>(std::size(states)) + columns - 1) / columns) * sample_h});
  ImGui::Dummy({0, ui.px(2)});
  const ImVec2 below = ImGui::GetCursorScreenPos();
  const float height =
      draw_paragraph(ui, list, ui.fonts.small, below.x, below.y, w - ui.px(60), ui.colors->text,
                     "The width of a link is its bandwidth, its fill is use. L2 shows the tiles it "
                     "holds; full colour: written and not yet in HBM. A dashed frame: never in HBM, its "
                     "tiles pass by on the SMs. The timeline shows the use of HBM and L2, and what SM "
                     "0's CTAs spent their time on: a link, a unit, or waiting. FMA: instructions are "
                     "issued, multiply-adds, and also those of loads and stores whose bytes come "
                     "sooner. The wheel zooms, the right button drags. Sizes are decimal: 1 MB is "
                     "1,000,000 bytes.");
  ImGui::Dummy({0, height});
  ImGui::End();
  ImGui::PopStyleColor();
  ImGui::PopStyleVar(2);
}

}  // namespace flashscope::viz
