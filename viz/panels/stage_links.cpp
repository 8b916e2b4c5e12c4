// The links between HBM, L2 and the SMs, and the tiles that are on them.
#include <algorithm>

#include "viz/core/app_state.h"
#include "viz/core/text.h"
#include "viz/panels/stage_parts.h"

namespace flashscope::viz {
namespace {

constexpr float kPixelsPerTbPerS = 6;  // width of a link

class LinksDrawing : StagePart {
 public:
  explicit LinksDrawing(const StageView& view) : StagePart(view) {}

  void draw_links(const Rect& hbm, const Rect& l2, const Rect& sms) {
    const float center = hbm.x + hbm.w / 2;
    pipe(center, hbm.bottom(), l2.y, m_scene.hbm.gb_per_s, m_scene.hbm.used_share, m_c.of(Reason::hbm));
    pipe(center, l2.bottom(), sms.y, m_scene.l2.gb_per_s, m_scene.l2.used_share, m_c.of(Reason::l2));
    const float x = center + px(35);
    // In a narrow stage with large type the way of the last SM's tiles begins where the text would end.
    const bool crossed = m_level < kWholeGpu && !m_scene.sms.empty();
    float w = std::min(px(112), hbm.right() - x);
    for (const SmView& sm : m_scene.sms)
      if (crossed && port_x(sms, sm.sm) > x) w = std::min(w, port_x(sms, sm.sm) - px(14) - x);
    const auto use = [&](const LinkView& link) {
      const std::string share = percent_text(link.used_share), whole = share + " of " + bandwidth_text(link.gb_per_s);
      return text_width(m_ui.fonts.small, whole) <= w ? whole : share;
    };
    const float down = (l2.y - hbm.bottom() - px(16)) / 2;
    text(m_ui.fonts.small, x, hbm.bottom() + down, w, m_c.text, use(m_scene.hbm));
    text(m_ui.fonts.small, x, l2.bottom() + down, w, m_c.text, use(m_scene.l2));
    const Machine& machine = m_trace.machine();
    if (m_level >= kWholeGpu) return;
    const double port = machine.l2_bytes_per_clk_per_sm.value * machine.sm_clock_mhz.value / 1e3;
    for (const SmView& sm : m_scene.sms)
      pipe(port_x(sms, sm.sm), l2.bottom(), sms.y, port, sm.port_share, m_c.of(Reason::l2));
  }

  void draw_tiles_in_flight(const Rect& hbm, const Rect& l2, const Rect& sms) {
    if (m_level >= kWholeGpu) return;  // too many to tell apart: the fill of the links says how many bytes they are
    const float size = px(9);
    for (const TileInFlight& tile : m_scene.in_flight) {
      const float port = port_x(sms, tile.sm) + (static_cast<float>(tile.slot % 2) - 0.5f) * px(11);
      const float lane_x = hbm_lane(sms, tile.sm);
      float x = port, y = 0;
      const float p = static_cast<float>(tile.progress);
      if (tile.store)
        y = sms.y + (l2.bottom() - sms.y) * p;
      else if (!tile.from_hbm)
        y = l2.bottom() + (sms.y - l2.bottom()) * p;
      else if (p < 0.5f) {
        x = lane_x;
        y = hbm.bottom() + (l2.y - hbm.bottom()) * 2 * p;
      } else
        y = l2.bottom() + (sms.y - l2.bottom()) * (2 * p - 1);
      const Rect r = {x - size / 2, y - size / 2, size, size};
      fill(m_list, r, m_c.of(tile.tensor), px(1));
      outline(m_list, r, m_c.accent, px(1));
    }
  }

 private:
  /// A pipe: its width is bandwidth, the filled part of it is use.
  void pipe(float center, float top, float bottom, double gb_per_s, double share, Color color) {
    const float w = std::max(px(2), px(kPixelsPerTbPerS) * static_cast<float>(gb_per_s / 1e3));
    const Rect frame = {center - w / 2, top, w, bottom - top};
    fill(m_list, frame, mixed(color, m_c.panel, 0.15));
    const float used = w * static_cast<float>(share);
    fill(m_list, {center - used / 2, top, used, bottom - top}, color);
    outline(m_list, frame, mixed(color, m_c.panel, 0.7));
  }

  /// Where the port of an SM is: towards the sides, so that the link to all SMs has room for its numbers.
  float port_x(const Rect& sms, int sm) const {
    const float count = static_cast<float>(m_scene.sms.size());
    const float middle = count == 1 ? 0.25f : (static_cast<float>(sm) + 0.5f) / count;
    return sms.x + sms.w * (0.5f + (middle - 0.5f) * 1.68f);
  }
  float hbm_lane(const Rect& sms, int sm) const {
    const float center = sms.x + sms.w / 2;
    return center + (static_cast<float>(sm) - 0.5f) * px(9);
  }
};

}  // namespace

void draw_stage_links(const StageView& view, const Rect& hbm, const Rect& l2, const Rect& sms) {
  LinksDrawing drawing(view);
  drawing.draw_links(hbm, l2, sms);
  drawing.draw_tiles_in_flight(hbm, l2, sms);
}

}  // namespace flashscope::viz
