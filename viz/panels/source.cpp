#include <algorithm>
#include <cmath>

#include "viz/panels/panels.h"

namespace flashscope::viz {

void source_panel(const Ui& ui, const Rect& area, const SourceFile& file, const SourcePlace& place,
                  const std::string& doing) {
  ImDrawList* list = begin_panel(ui, "source", area);
  const Palette& c = *ui.colors;
  const Rect inner = area.inset(ui.px(12));
  const float name = draw_text(ui, list, ui.fonts.bold, inner.x, inner.y, inner.w, c.text, file.name);
  draw_text(ui, list, ui.fonts.small, inner.x + name + ui.px(12), inner.y + ui.px(2), inner.w - name - ui.px(12),
            c.text_dim, doing, Align::right);
  const Rect body = {inner.x, inner.y + ui.px(26), inner.w, inner.h - ui.px(26)};
  const float line_h = std::floor(ui.px(16)), number_w = ui.px(34);
  const int rows = std::max(1, static_cast<int>(body.h / line_h)), lines = static_cast<int>(file.lines.size());
  // The operation stands a third of the way down, and the kernel's head is in view while it fits.
  const int focus = place.lit.empty() ? place.kernel_first : place.lit.front();
  int first = focus - place.kernel_first < rows - 4 ? place.kernel_first : focus - rows / 3;
  first = std::clamp(first, 0, std::max(0, lines - rows));
  list->PushClipRect({body.x, body.y}, {body.right(), body.bottom()}, true);
  for (int n = first; n < std::min(lines, first + rows); ++n) {
    const float y = body.y + static_cast<float>(n - first) * line_h;
    const bool lit = std::find(place.lit.begin(), place.lit.end(), n) != place.lit.end();
    const bool in_step = n >= place.step_first && n < place.step_last;
    const bool in_kernel = n >= place.kernel_first && n < place.kernel_last;
    if (in_step) fill(list, {body.x, y, body.w, line_h}, mixed(c.grip, c.panel, 0.6));
    if (lit) {
      fill(list, {body.x, y, body.w, line_h}, mixed(c.warning, c.panel, 0.35));
      fill(list, {body.x, y, ui.px(3), line_h}, c.warning);
    }
    draw_text(ui, list, ui.fonts.mono, body.x, y, number_w - ui.px(8), c.text_dim, std::to_string(n + 1), Align::right);
    const std::string& text = file.lines[static_cast<std::size_t>(n)];
    const std::size_t begin = text.find_first_not_of(' ');
    const bool comment = begin != std::string::npos && text.compare(begin, 2, "//") == 0;
    // As it is written, to the edge: an ellipsis would be no part of the program. The rest is under the mouse.
    list->AddText(ui.fonts.mono, ui.fonts.mono->FontSize, {std::round(body.x + number_w), std::round(y)},
                  !in_kernel || comment ? c.text_dim : c.text, text.c_str());
    if (text_width(ui.fonts.mono, text) > body.w - number_w && ImGui::IsWindowHovered() &&
        ImGui::IsMouseHoveringRect({body.x, y}, {body.right(), y + line_h}))
      ImGui::SetTooltip("%s", text.c_str());
  }
  list->PopClipRect();
  end_panel();
}

}  // namespace flashscope::viz
