#include "viz/panels/panels.h"

namespace flashscope::viz {

void inspector_message(const Ui& ui, const Rect& area, const std::string& title, const std::string& text) {
  begin_panel(ui, "inspector", area);
  ImGui::PushFont(ui.fonts.bold);
  ImGui::TextUnformatted(title.c_str());
  ImGui::PopFont();
  ImGui::PushTextWrapPos(area.w - ui.px(12));
  ImGui::TextUnformatted(text.c_str());
  ImGui::PopTextWrapPos();
  end_panel();
}

}  // namespace flashscope::viz
