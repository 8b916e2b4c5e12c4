// The SMs: one or two with what their CTAs hold, or every SM of the GPU as a cell.
#include <algorithm>
#include <cmath>

#include "viz/core/app_state.h"
#include "viz/core/text.h"
#include "viz/panels/stage_parts.h"

namespace flashscope::viz {
namespace {

class SmsDrawing : StagePart {
 public:
  explicit SmsDrawing(const StageView& view) : StagePart(view) {}

  void draw_sms(const Rect& area) {
    if (m_level >= kWholeGpu) return draw_gpu(area);
    const float w = sm_width(area.w);
    for (const SmView& sm : m_scene.sms)
      draw_sm({area.x + static_cast<float>(sm.sm) * (w + px(8)), area.y, w, area.h}, sm);
  }

  float needed_sm_height(float w, bool roomy) const {
    if (m_level >= kWholeGpu) return px(roomy ? 158 : 84);
    const bool halved = m_level == 0;  // two CTAs side by side, each below its name
    const float inner = sm_width(w) - px(14);
    float needed = px(roomy ? 122 : 0);
    static const std::vector<CtaView> none;
    for (const StageTrace* trace : {&m_trace, m_view.beside})
      for (const CtaView& cta : trace ? trace->fullest_ctas() : none)
        needed = std::max(needed, px(20) + stage_cta_height(m_view, halved ? (inner - px(16)) / 2 : inner, cta, roomy) +
                                      px(halved  ? 19
                                         : roomy ? 22
                                                 : 2));
    return needed;
  }

 private:
  float sm_width(float all) const {
    const float count = static_cast<float>(std::max<std::size_t>(1, m_scene.sms.size()));
    return (all - px(8) * (count - 1)) / count;
  }

  /// Every SM as a cell, its slots as stripes in the colour of what they do or wait for.
  void draw_gpu(const Rect& box) {
    fill(m_list, box, m_c.box, px(4));
    outline(m_list, box, m_c.of(Reason::smem), px(4), px(1.5f));
    const auto num_sms = static_cast<int>(m_trace.machine().num_sms.value);
    const float x = box.x + px(7), w = box.w - px(14);
    const float label = text(m_ui.fonts.bold, x, box.y + px(3), w, m_c.text, std::to_string(num_sms) + " SMs");
    const GridProgress& grid = m_scene.grid;
    const std::string wave = "wave " + std::to_string(grid.wave) + " of " + std::to_string(grid.waves);
    const std::vector<std::string> waves =
        m_scene.kernel < 0 ? std::vector<std::string>{m_scene.finished ? "all CTAs done" : "between kernels"}
                           : std::vector<std::string>{
                                 wave + ", " + grouped(grid.done) + " of " + grouped(grid.ctas) + " CTAs done", wave};
    text(m_ui.fonts.small, x + label + px(8), box.y + px(5), w - label - px(8), m_c.text_dim,
         longest_that_fits(waves, w - label - px(8)), Align::right);
    const Rect area = {x, box.y + px(25), w, box.bottom() - box.y - px(33)};
    if (num_sms < 1 || area.empty()) return;
    const float aspect = area.w / area.h;
    const int across = std::max(1, static_cast<int>(std::ceil(std::sqrt(static_cast<float>(num_sms) * aspect))));
    const int down = (num_sms + across - 1) / across;
    const float cell_w = area.w / static_cast<float>(across), cell_h = area.h / static_cast<float>(down);
    const float gap = std::max(1.0f, px(2));
    for (int sm = 0; sm < num_sms; ++sm) {
      const Rect cell = {area.x + static_cast<float>(sm % across) * cell_w,
                         area.y + static_cast<float>(sm / across) * cell_h, cell_w - gap, cell_h - gap};
      fill(m_list, cell, m_c.of(Reason::idle));
      for (int slot = 0; slot < m_scene.slots_per_sm; ++slot) {
        const SlotCell& now = m_scene.slots[static_cast<std::size_t>(sm * m_scene.slots_per_sm + slot)];
        if (!now.busy) continue;
        const float stripe = cell.h / static_cast<float>(m_scene.slots_per_sm);
        const Rect part = {cell.x, cell.y + static_cast<float>(slot) * stripe, cell.w, std::max(1.0f, stripe - 1)};
        fill(m_list, part, m_c.of(now.reason));
        // What it moves, as a chip of the tensor's colour.
        if ((now.op == Op::load || now.op == Op::store) && part.h >= px(4))
          fill(m_list, {part.x + part.w * 0.3f, part.y + part.h * 0.2f, part.w * 0.4f, part.h * 0.6f},
               m_c.of(now.tensor), px(1));
      }
    }
  }

  void draw_sm(const Rect& box, const SmView& sm) {
    fill(m_list, box, m_c.box, px(4));
    outline(m_list, box, m_c.of(Reason::smem), px(4), px(1.5f));
    const float x = box.x + px(7), w = box.w - px(14);
    float y = box.y + px(3);
    const float label = text(m_ui.fonts.bold, x, y, w, m_c.text, "SM " + std::to_string(sm.sm));
    if (sm.ctas.empty()) {
      text(m_ui.fonts.small, x, y + px(2), w, m_c.text_dim, "idle", Align::right);
      if (const std::string why = why_idle(sm.sm); text_width(m_ui.fonts.small, why) <= w && box.h >= px(60))
        text(m_ui.fonts.small, x, box.y + (box.h - px(16)) / 2, w, m_c.text_dim, why, Align::center);
      return;
    }
    const auto names = [](const CtaView& cta) -> std::vector<std::string> {
      const std::string number = "CTA " + grouped(cta.cta);
      return {number + ", head " + std::to_string(cta.head + 1), number};
    };
    if (m_level == 0 && sm.ctas.size() > 1) {  // both CTAs, side by side
      const float half = (w - px(16)) / 2;
      y += px(20);
      for (std::size_t n = 0; n < 2; ++n) {
        const float left = x + static_cast<float>(n) * (half + px(16));
        text(m_ui.fonts.small, left, y, half, m_c.text_dim, longest_that_fits(names(sm.ctas[n]), half));
        m_list->PushClipRect({box.x, box.y}, {box.right(), box.bottom()}, true);
        const float below =
            draw_stage_cta(m_view, left, y + px(17), half, sm.ctas[n], box.bottom() - px(2), box.bottom() - px(1));
        m_list->PopClipRect();
        fits(below, box, sm.ctas[n]);
      }
      fill(m_list, {x + half + px(8), y, 1, box.bottom() - y - px(8)}, m_c.line);
      if (sm.ctas.size() > 2)
        text(m_ui.fonts.small, x + label, box.y + px(5), w - label, m_c.text_dim,
             "and " + std::to_string(sm.ctas.size() - 2) + " more", Align::right);
      return;
    }
    const CtaView& cta = sm.ctas.front();
    text(m_ui.fonts.small, x + label + px(6), y + px(2), w - label - px(6), m_c.text_dim,
         longest_that_fits(names(cta), w - label - px(6)), Align::right);
    // In large type many tiles may want more lines than the box has: what is below it belongs to others.
    m_list->PushClipRect({box.x, box.y}, {box.right(), box.bottom()}, true);
    const float below = draw_stage_cta(m_view, x, y + px(20), w, cta, box.bottom() - px(sm.ctas.size() > 1 ? 20 : 2),
                                       box.bottom() - px(2));
    m_list->PopClipRect();
    fits(below, box, cta);
    if (below <= box.bottom() - px(18)) others({x, box.bottom() - px(20), w, px(16)}, sm);
  }

  /// When an SM without a CTA had or will have one.
  std::string why_idle(int sm) const {
    const OpSpan *next = nullptr, *last = nullptr;
    for (const SlotTrack& track : m_trace.tracks()) {
      if (track.sm != sm || track.first == track.last) continue;
      const OpSpan* begun = m_trace.last_begun(track, m_scene.t);
      const OpSpan* following = begun ? begun + 1 : &m_trace.spans()[track.first];
      if (begun && (!last || begun->end > last->end)) last = begun;
      if (following < m_trace.spans().data() + track.last && (!next || following->begin < next->begin))
        next = following;
    }
    const auto at = [](Picoseconds t) { return " at " + time_text(static_cast<double>(t) / 1e6); };
    return next ? "next CTA" + at(next->begin) : last ? "last CTA ended" + at(last->end) : "no CTA in this run";
  }

  /// The first of the texts that has room, else the last.
  std::string longest_that_fits(const std::vector<std::string>& texts, float room) const {
    for (const std::string& words : texts)
      if (text_width(m_ui.fonts.small, words) <= room) return words;
    return texts.back();
  }

  /// Says it where what a CTA holds runs over its box.
  void fits(float below, const Rect& box, const CtaView& cta) const {
    if (m_ui.misfits && below > box.bottom() + px(3))
      m_ui.misfits->push_back("what CTA " + grouped(cta.cta) + " holds");
  }

  /// The other CTAs of the SM: a chip each, in the colour of what it does or waits for.
  void others(const Rect& area, const SmView& sm) {
    if (sm.ctas.size() < 2) return;
    float x = area.x;
    const std::string label = "+ " + std::to_string(sm.ctas.size() - 1) + (sm.ctas.size() == 2 ? " CTA" : " CTAs");
    x += text(m_ui.fonts.small, x, area.y, area.w, m_c.text_dim, label) + px(7);
    for (std::size_t n = 1; n < sm.ctas.size() && x + px(9) < area.right(); ++n) {
      fill(m_list, {x, area.y + px(4), px(9), px(9)}, m_c.of(sm.ctas[n].reason), px(1));
      x += px(13);
    }
    if (sm.ctas.size() != 2) return;
    const std::string& doing = sm.ctas[1].doing;
    const float room = area.right() - x;
    for (const std::string& words : {doing, doing.substr(0, doing.find(" from ")), doing.substr(0, doing.find(" = "))})
      if (text_width(m_ui.fonts.small, words) <= room) {  // half a word says nothing
        text(m_ui.fonts.small, x, area.y, room, m_c.text_dim, words);
        break;
      }
  }
};

}  // namespace

void draw_stage_sms(const StageView& view, const Rect& area) { SmsDrawing(view).draw_sms(area); }

float stage_sms_height(const StageView& view, float w, bool roomy) {
  return SmsDrawing(view).needed_sm_height(w, roomy);
}

}  // namespace flashscope::viz
