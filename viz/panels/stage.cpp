// From top to bottom as the data goes: HBM with the matrices as tile maps, the link to L2, what L2 holds of them, the
// links to the SMs, the SMs (one or two with what they hold, or all of them as cells), and the counters. Both stages
// share one geometry where there is room, so that what one algorithm keeps in HBM and the other does not stands side by
// side.
#include <algorithm>

#include "sim/schedule/algorithms.h"
#include "viz/core/app_state.h"
#include "viz/core/stage_caption.h"
#include "viz/core/stage_counters.h"
#include "viz/core/text.h"
#include "viz/panels/panels.h"
#include "viz/panels/stage_parts.h"
#include "viz/render/rich_text.h"

namespace flashscope::viz {
namespace {

/// What a kernel does, without the algorithm that it is of or was taken from: "three_pass_scores" → "scores".
std::string short_name(std::string kernel, Pass pass) {
  const auto without = [](const std::string& text, const std::string& prefix) {
    return text.rfind(prefix, 0) == 0 ? text.substr(prefix.size()) : text;
  };
  std::string prefix;
  for (Pass of : {Pass::forward, Pass::backward})
    for (const Algorithm& algorithm : algorithms(of)) {
      const std::string name = algorithm.name;
      const bool begins = kernel == name || kernel.rfind(name + "_", 0) == 0;
      if (begins && name.size() > prefix.size()) prefix = name;
    }
  kernel = without(without(without(kernel, prefix), "_"), "backward");
  kernel = without(kernel, "_");
  std::replace(kernel.begin(), kernel.end(), '_', ' ');
  // Gradients in the papers' letters: "dk dv" → "dK dV".
  for (std::size_t at = 0; at + 1 < kernel.size(); ++at)
    if (const bool two = (at == 0 || kernel[at - 1] == ' ') && (at + 2 == kernel.size() || kernel[at + 2] == ' ');
        two && kernel[at] == 'd')
      kernel[at + 1] = static_cast<char>(kernel[at + 1] - 'a' + 'A');
  return !kernel.empty() ? kernel : pass == Pass::backward ? "gradients" : "attention";
}

class StageDrawing : StagePart {
 public:
  StageDrawing(const StageView& view, const Rect& area, const std::vector<Tensor>& order)
      : StagePart(view), m_area(area), m_order(order) {}

  void draw() {
    const float pad = px(8);
    float y = m_area.y + px(5);
    title(y);
    y += px(25);
    kernels(y);
    y += px(21);

    if (m_area.h < px(260))  // too low for more: what the SMs do
      return draw_stage_sms(m_view, {m_area.x + pad, y, m_area.w - 2 * pad, m_area.bottom() - px(8) - y});
    // The SMs get what their fullest CTA needs, and what the maps leave; the maps the rest: five parts HBM, two parts
    // L2.
    const float x = m_area.x + pad, w = m_area.w - 2 * pad;
    const float counters_height = m_area.h < px(330) ? 0 : px(44), header = px(20), letters = px(15), foot = px(6);
    const float around = m_area.bottom() - y - counters_height - 2 * (header + foot) - letters - px(8);
    // Where there is little room for all, the links are as long as their text is high.
    const float roomy = stage_sms_height(m_view, w, true), link = around - px(60) < px(110) + roomy ? px(20) : px(30);
    const float room = around - 2 * link;
    const float least_sms = std::min(stage_sms_height(m_view, w, false), room - px(44));
    const bool is_wide = w > 1.6f * room && room > px(240);  // one stage: its SMs have long lines, its maps want height
    const float most_sms = is_wide ? 0.5f : 0.62f;           // of the room
    const float sm_height = std::min(roomy, std::max(room * most_sms, least_sms)), maps = room - sm_height;
    const MapLayout layout = map_layout(m_ui, m_trace, m_order, x + px(8), w - px(16), std::max(px(20), maps * 5 / 7));
    const float l2_maps = std::max(px(12), std::min(maps - layout.height, layout.height));
    const Rect hbm = {x, y, w, header + letters + layout.height + foot};
    const Rect l2 = {x, hbm.bottom() + link, w, header + l2_maps + foot};
    const float sms_top = l2.bottom() + link;
    const Rect sms = {x, sms_top, w, std::max(sm_height, m_area.bottom() - counters_height - px(8) - sms_top)};

    draw_stage_hbm(m_view, hbm, layout);
    draw_stage_l2(m_view, l2, layout, l2_maps);
    draw_stage_sms(m_view, sms);
    draw_stage_links(m_view, hbm, l2, sms);
    if (counters_height > 0) counters({x, m_area.bottom() - counters_height, w, counters_height});
  }

 private:
  void title(float y) {
    const std::string& algorithm = m_trace.schedule().algorithm();
    const float x = m_area.x + px(10), w = m_area.w - px(20);
    const float name = text(m_ui.fonts.title, x, y, w, m_c.text, algorithm);
    const double us = static_cast<double>(m_trace.duration()) / 1e6;
    const std::string all = grouped(static_cast<std::int64_t>(m_trace.machine().num_sms.value));
    std::string status =
        m_scene.finished ? "done after " + time_text(us) : grouped(m_scene.busy_sms) + " of " + all + " SMs busy";
    if (text_width(m_scene.finished ? m_ui.fonts.bold : m_ui.fonts.body, status) > w - name - px(12))
      status = m_scene.finished ? "done" : grouped(m_scene.busy_sms) + "/" + all + " busy";
    text(m_scene.finished ? m_ui.fonts.bold : m_ui.fonts.body, x + name + px(12), y + px(3), w - name - px(12),
         m_scene.finished ? m_c.good : m_c.text_dim, status, Align::right);
  }

  /// The kernels in launch order, the one that runs underlined.
  void kernels(float y) {
    float x = m_area.x + px(10);
    const float right = m_area.right() - px(10);
    const auto& launches = m_trace.schedule().kernels();
    std::vector<std::string> names;
    float needed = 0;
    for (const KernelLaunch& launch : launches) {
      names.push_back(short_name(launch.name, m_trace.schedule().problem().pass));
      const std::string& name = names.back();
      needed += text_width(m_ui.fonts.small, "kernel 1 " + name) + px(14);
    }
    const std::string word = needed <= right - x ? "kernel " : "";
    for (std::size_t k = 0; k < launches.size(); ++k) {
      const bool running = m_scene.kernel == static_cast<int>(k);
      const bool over = m_scene.t >= m_trace.prediction().kernels[k].end;
      const std::string name = launches.size() > 1 ? word + std::to_string(k + 1) + " " + names[k]
                                                   : "one kernel, " + grouped(launches[k].ctas()) +
                                                         (launches[k].ctas() == 1 ? " CTA" : " CTAs");
      const float w = text(m_ui.fonts.small, x, y, right - x, running ? m_c.text : m_c.text_dim, name);
      if (running) fill(m_list, {x, y + px(16), w, px(2)}, m_c.accent);
      if (over && !running) fill(m_list, {x, y + px(16), w, px(1)}, m_c.line);
      x += w + px(14);
    }
    own_tile(x, y, right - x);
  }

  /// Both sides take the tile that is set: a recording has this kernel in another.
  void own_tile(float x, float y, float room) {
    for (const std::string& words : not_its_tile(m_trace.schedule()))
      if (text_width(m_ui.fonts.small, words) <= room) {
        text(m_ui.fonts.small, x, y, room, m_c.warning, words, Align::right);
        break;
      }
  }

  void counters(const Rect& area) {
    std::vector<StageCounter> list = stage_counters(m_trace, m_scene);
    const float w = area.w / 2 - px(6);
    // Three of them speak alike: where one has no room for its total, none names it.
    for (std::size_t n = 0; n < 3; ++n)
      if (!fits(list[n], list[n].texts.front(), w))
        for (std::size_t other = 0; other < 3; ++other)
          if (list[other].texts.size() > 1) list[other].texts.erase(list[other].texts.begin());
    if (!fits(list[0], list[0].texts.back(), w) || !fits(list[2], list[2].texts.back(), w)) {
      // A narrow stage has room for what is read.
      counter({area.x, area.y + px(2), area.w, px(18)}, list[0]);
      return counter({area.x, area.y + px(22), area.w, px(18)}, list[2]);
    }
    for (std::size_t n = 0; n < list.size(); ++n)
      counter({area.x + (n < 2 ? 0 : area.w / 2 + px(6)), area.y + px(n % 2 == 0 ? 2 : 22), w, px(18)}, list[n]);
  }

  bool fits(const StageCounter& counter, const std::string& value, float w) const {
    return text_width(m_ui.fonts.small, counter.name) + px(6) + text_width(m_ui.fonts.small, value) <= w;
  }

  void counter(const Rect& r, const StageCounter& counter) {
    text(m_ui.fonts.small, r.x, r.y, r.w, m_c.text_dim, counter.name);
    const float left = text_width(m_ui.fonts.small, counter.name) + px(6);
    const auto found = std::find_if(counter.texts.begin(), counter.texts.end() - 1,
                                    [&](const std::string& value) { return fits(counter, value, r.w); });
    text(m_ui.fonts.small, r.x + left, r.y, r.w - left, counter.checked ? m_c.good : m_c.text, *found, Align::right);
    const Rect bar = {r.x, r.y + px(16), r.w, px(2)};
    const Color color = counter.checked ? m_c.good : m_c.text_dim;
    const float filled = bar.w * static_cast<float>(counter.share);
    fill(m_list, bar, m_c.grip);
    fill(m_list, {bar.x, bar.y, filled, bar.h}, color);
    fill(m_list, {bar.x + filled, bar.y, bar.w * static_cast<float>(counter.share_in_l2), bar.h},
         mixed(color, m_c.grip, 0.45));
  }

  const Rect m_area;
  const std::vector<Tensor>& m_order;
};

}  // namespace

void stage_panel(const Ui& ui, const Rect& area, const char* name, const StageTrace& trace, const Scene& scene,
                 const std::vector<Tensor>& order, int level, const StageTrace* beside) {
  ImDrawList* list = begin_panel(ui, name, area, false);
  StageDrawing({ui, list, name, trace, beside, scene, level}, area, order).draw();
  end_panel();
}

void stage_message(const Ui& ui, const Rect& area, const char* name, const std::string& title,
                   const std::string& text) {
  ImDrawList* list = begin_panel(ui, name, area, false);
  ImGui::PushFont(ui.fonts.title);
  ImGui::TextUnformatted(title.c_str());
  ImGui::PopFont();
  ImGui::Dummy({0, ui.px(8)});
  const ImVec2 at = ImGui::GetCursorScreenPos();
  draw_paragraph(ui, list, ui.fonts.body, at.x, at.y, area.right() - ui.px(12) - at.x, ui.colors->text, text);
  end_panel();
}

}  // namespace flashscope::viz
