#include <algorithm>

#include "viz/core/text.h"
#include "viz/panels/panels.h"
#include "viz/render/plot.h"

namespace flashscope::viz {

void memory_panel(const Ui& ui, const Rect& area, const MemoryCurve& curve, const Settings& settings) {
  ImDrawList* list = begin_panel(ui, "memory", area);
  const Palette& c = *ui.colors;
  const Rect inner = area.inset(ui.px(12));
  const float table_h = ui.px(26) + ui.px(18) * static_cast<float>(curve.limits.size()) + ui.px(6);
  draw_figure(ui, list, {inner.x, inner.y, inner.w, inner.h - table_h - ui.px(8)}, curve.figure);
  float y = inner.bottom() - table_h;
  const float n_w = std::min(ui.px(110), inner.w / 4);
  const float right = inner.right();
  draw_text(ui, list, ui.fonts.bold, inner.x, y, inner.w, c.text, "Largest N that fits");
  draw_text(ui, list, ui.fonts.small, right - 2 * n_w, y + ui.px(2), n_w, c.text_dim, settings.algorithms[0],
            Align::right);
  draw_text(ui, list, ui.fonts.small, right - n_w, y + ui.px(2), n_w, c.text_dim, settings.algorithms[1], Align::right);
  y += ui.px(22);
  fill(list, {inner.x, y - ui.px(2), inner.w, 1}, c.line);
  for (const MemoryLimit& limit : curve.limits) {
    draw_text(ui, list, ui.fonts.small, inner.x, y, inner.w - 3 * n_w, c.text, limit.gpu);
    draw_text(ui, list, ui.fonts.small, right - 3 * n_w, y, n_w, c.text_dim, size_text(limit.bytes), Align::right);
    for (std::size_t side = 0; side < 2; ++side) {
      const int n = limit.largest[side];
      const std::string text = (n >= kMaxSeqlen ? "≥ " : "") + grouped(n);
      draw_text(ui, list, ui.fonts.small, right - (side == 0 ? 2 : 1) * n_w, y, n_w, c.text, text, Align::right);
    }
    y += ui.px(18);
  }
  end_panel();
}

}  // namespace flashscope::viz
