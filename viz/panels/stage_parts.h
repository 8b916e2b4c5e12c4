// The parts of a stage: each draws one thing into its place, and stage.cpp says where the places are.
#pragma once
#include <string>

#include "viz/core/scene.h"
#include "viz/render/map_layout.h"
#include "viz/render/ui.h"

namespace flashscope::viz {

/// What every part draws from, and with. `name` tells the textures of one stage from those of the other.
struct StageView {
  const Ui& ui;
  ImDrawList* list;
  const char* name;
  const StageTrace& trace;
  const StageTrace* beside;  // of the other stage; may be null
  const Scene& scene;
  int level;
};

/// What parts are written in.
class StagePart {
 protected:
  explicit StagePart(const StageView& view)
      : m_view(view),
        m_ui(view.ui),
        m_c(*view.ui.colors),
        m_list(view.list),
        m_name(view.name),
        m_trace(view.trace),
        m_scene(view.scene),
        m_level(view.level) {}

  float px(float units) const { return m_ui.px(units); }
  float text(ImFont* font, float x, float y, float w, Color color, const std::string& s,
             Align align = Align::left) const {
    return draw_text(m_ui, m_list, font, x, y, w, color, s, align);
  }

  const StageView m_view;
  const Ui& m_ui;
  const Palette& m_c;
  ImDrawList* const m_list;
  const char* const m_name;
  const StageTrace& m_trace;
  const Scene& m_scene;
  const int m_level;
};

/// HBM with the matrices as tile maps, and L2 with what it holds of them, `map_height` high.
void draw_stage_hbm(const StageView& view, const Rect& box, const MapLayout& layout);
void draw_stage_l2(const StageView& view, const Rect& box, const MapLayout& layout, float map_height);

/// The links between three boxes, and the tiles on them.
void draw_stage_links(const StageView& view, const Rect& hbm, const Rect& l2, const Rect& sms);

/// The SMs in view, or all of them as cells.
void draw_stage_sms(const StageView& view, const Rect& area);
/// Of boxes in which the fullest CTA of any kernel of both stages is drawn roomily, or as closely as can be: the same
/// at any time. `w`: of all of them.
float stage_sms_height(const StageView& view, float w, bool roomy);

/// What a CTA does and holds. Returns the y below it: above `bottom` where some closeness achieves that, else above
/// `end`, else as it comes.
float draw_stage_cta(const StageView& view, float x, float y, float w, const CtaView& cta, float bottom, float end);
/// The same, drawn roomily or as closely as can be.
float stage_cta_height(const StageView& view, float w, const CtaView& cta, bool roomy);

}  // namespace flashscope::viz
