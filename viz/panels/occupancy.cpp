#include "viz/core/text.h"

#include <algorithm>

#include "viz/panels/panels.h"
#include "viz/render/plot.h"

namespace flashscope::viz {
namespace {

std::string amount(const OccupancyLimit& limit, double value) {
  return limit.unit == "B" ? size_text(value) : grouped(static_cast<std::int64_t>(value));
}

/// "52.2 of 228 KiB": shared memory comes in powers of two.
std::string amounts(const OccupancyLimit& limit) {
  if (limit.unit == "B")
    return three_digits(limit.per_cta / 1024) + " of " + three_digits(limit.per_sm / 1024) + " KiB";
  return amount(limit, limit.per_cta) + " of " + amount(limit, limit.per_sm);
}

/// `tight`: many kernels in a low panel stand closer.
float kernel(const Ui& ui, ImDrawList* list, const Rect& inner, float y, const OccupancyRow& row, float tight) {
  const Palette& c = *ui.colors;
  const float x = inner.x, w = inner.w;
  const float name = draw_text(ui, list, ui.fonts.bold, x, y, w, c.text, row.kernel);
  const std::string answer =
      row.ctas_per_sm == 0
          ? "does not fit on an SM"
          : std::to_string(row.ctas_per_sm) + (row.ctas_per_sm == 1 ? " CTA an SM, " : " CTAs an SM, ") +
                std::to_string(row.warps_per_sm) + " of " + std::to_string(row.most_warps) + " warps";
  draw_text(ui, list, ui.fonts.body, x + name + ui.px(10), y, w - name - ui.px(10),
            row.ctas_per_sm == 0 ? c.warning : c.text, answer, Align::right);
  y += ui.px(22);
  const float label_w = ui.px(104), fits_w = ui.px(120), amount_w = ui.px(124);
  for (const OccupancyLimit& limit : row.limits) {
    draw_text(ui, list, limit.binds ? ui.fonts.bold : ui.fonts.small, x, y, label_w, limit.binds ? c.text : c.text_dim,
              limit.name);
    // The SM's share that the resident CTAs take, one piece a CTA.
    const Rect bar = {x + label_w, y + ui.px(1), w - label_w - amount_w - fits_w, ui.px(15)};
    fill(list, bar, mixed(c.grip, c.panel, 0.5), ui.px(2));
    const float piece = bar.w * static_cast<float>(limit.per_sm > 0 ? limit.per_cta / limit.per_sm : 0);
    for (int n = 0; n < row.ctas_per_sm && n < 64; ++n)
      fill(list, {bar.x + static_cast<float>(n) * piece, bar.y, std::max(1.0f, piece - ui.px(1.5f)), bar.h},
           limit.binds ? c.of(Reason::smem) : mixed(c.of(Reason::smem), c.panel, 0.45), ui.px(1));
    draw_text(ui, list, ui.fonts.small, bar.right() + ui.px(4), y, amount_w - ui.px(4),
              limit.binds ? c.text : c.text_dim, amounts(limit), Align::right);
    draw_text(ui, list, ui.fonts.small, bar.right() + amount_w + ui.px(8), y, fits_w - ui.px(8),
              limit.binds ? c.text : c.text_dim, "would let in " + std::to_string(limit.ctas), Align::right);
    if (ImGui::IsMouseHoveringRect({x, y}, {inner.right(), y + ui.px(17)}))
      ImGui::SetTooltip("%s: a CTA takes %s of %s", limit.name.c_str(), amount(limit, limit.per_cta).c_str(),
                        amount(limit, limit.per_sm).c_str());
    y += ui.px(19 - 3 * tight);
  }
  std::string grid = grouped(row.ctas) + " CTAs of " + grouped(row.resources.threads) + " threads, " +
                     three_digits(static_cast<double>(row.resources.smem_bytes) / 1024) + " KiB SMEM, " +
                     std::to_string(row.resources.registers_per_thread) + " registers a thread";
  const std::string waves =
      row.waves > 0 ? ": " + grouped_decimal(row.waves, 2) + " waves, the last one fills " + percent_text(row.last_wave)
                    : "";
  if (text_width(ui.fonts.small, grid + waves) > w) grid = grouped(row.ctas) + " CTAs";  // the rest stands above
  draw_text(ui, list, ui.fonts.small, x, y, w, c.text_dim, grid + waves);
  return y + ui.px(28 - 10 * tight);
}

}  // namespace

void occupancy_panel(const Ui& ui, const Rect& area, const Machine& machine, const std::vector<OccupancyRow>& rows) {
  ImDrawList* list = begin_scrolling_panel(ui, "occupancy", area);
  const Rect inner = {area.x + ui.px(12), area.y, area.w - ui.px(34), area.h};
  float y = ImGui::GetCursorScreenPos().y;
  draw_text(ui, list, ui.fonts.small, inner.x, y, inner.w, ui.colors->text_dim,
            "What the CTAs on one SM of " + machine.title + " take of it; bold: the limit that binds");
  y += ui.px(24);
  float needed = 0, spare = 0;  // as loose as can be, and what tightness saves of it
  for (const OccupancyRow& row : rows) {
    needed += ui.px(22 + 28 + 19 * static_cast<float>(row.limits.size()));
    spare += ui.px(10 + 3 * static_cast<float>(row.limits.size()));
  }
  const float tight = std::clamp((needed + ui.px(14) - (area.bottom() - y)) / std::max(1.0f, spare), 0.0f, 1.0f);
  for (const OccupancyRow& row : rows) y = kernel(ui, list, inner, y, row, tight);
  ImGui::SetCursorScreenPos({inner.x, y});
  ImGui::Dummy({1, 1});
  end_panel();
}

}  // namespace flashscope::viz
