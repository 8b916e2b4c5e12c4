#include "viz/panels/panels.h"
#include "viz/render/rich_text.h"

namespace flashscope::viz {

void inspector_message(const Ui& ui, const Rect& area, const std::string& title, const std::string& text) {
  ImDrawList* list = begin_panel(ui, "inspector", area);
  ImGui::PushFont(ui.fonts.bold);
  ImGui::TextUnformatted(title.c_str());
  ImGui::PopFont();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  draw_paragraph(ui, list, ui.fonts.body, at.x, at.y, area.right() - ui.px(12) - at.x, ui.colors->text, text);
  end_panel();
}

}  // namespace flashscope::viz
