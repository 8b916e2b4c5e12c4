#include "viz/panels/panels.h"
#include "viz/render/plot.h"

namespace flashscope::viz {

void roofline_panel(const Ui& ui, const Rect& area, const Figure& figure) {
  ImDrawList* list = begin_panel(ui, "roofline", area);
  draw_figure(ui, list, area.inset(ui.px(12)), figure);
  end_panel();
}

}  // namespace flashscope::viz
