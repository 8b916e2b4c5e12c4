// HBM and L2: the matrices as maps of their tiles, to one scale.
#include <algorithm>
#include <utility>

#include "viz/core/text.h"
#include "viz/core/window_words.h"
#include "viz/panels/stage_parts.h"
#include "viz/render/tile_map.h"

namespace flashscope::viz {
namespace {

class MapsDrawing : StagePart {
 public:
  MapsDrawing(const StageView& view, const MapLayout& layout) : StagePart(view), m_layout(layout) {}

  void draw_hbm(const Rect& box) {
    fill(m_list, box, m_c.box, px(4));
    outline(m_list, box, m_c.of(Reason::hbm), px(4), px(1.5f));
    const Machine& machine = m_trace.machine();
    const float x = box.x + px(8), w = box.w - px(16), y = box.y + px(2);
    const float label = text(m_ui.fonts.bold, x, y, w, m_c.of(Reason::hbm), "HBM");
    text(m_ui.fonts.small, x + label + px(8), y + px(2), w, m_c.text_dim, size_text(machine.hbm_bytes.value));
    text(m_ui.fonts.small, x, y + px(2), w, m_c.text_dim, heads_text(), Align::right);
    m_maps_top = box.y + px(20) + px(15);
    m_maps_right = box.right() - px(8);
    for (const MapColumn& column : m_layout.columns)
      if (const TileMap* map = map_of(column.tensor)) {
        text(m_ui.fonts.small, column.label_x, m_maps_top - px(16), column.label_w, m_c.text, column.label,
             Align::center);
        const Rect area = {column.x, m_maps_top, column.w, height_of(*map)};
        draw_tile_map(m_ui, m_list, area, *map, MapView::state, std::string(m_name) + name_of(column.tensor));
        tile_tip(area, *map, false);
      } else if (column.tensor == Tensor::S && m_trace.scores_stay_on_chip()) {
        draw_scores_on_chip(column);
      }
  }

  void draw_l2(const Rect& box, float map_height) {
    fill(m_list, box, m_c.box, px(4));
    outline(m_list, box, m_c.of(Reason::l2), px(4), px(1.5f));
    const float x = box.x + px(8), w = box.w - px(16), y = box.y + px(2);
    const float label = text(m_ui.fonts.bold, x, y, w, m_c.of(Reason::l2), "L2");
    std::int64_t held = 0, cells = 0;
    for (const TileMap& map : m_scene.maps)
      if (!is_statistic(map.tensor))
        for (const TileCell& cell : map.cells) {
          held += cell.in_l2;
          ++cells;
        }
    std::string right = grouped(held) + " of " + grouped(cells);
    const std::string dirty = ", " + size_text(static_cast<double>(m_scene.moved.dirty)) + " not yet in HBM";
    if (m_scene.finished && m_scene.moved.dirty > 0 && text_width(m_ui.fonts.small, right + dirty) < w * 0.7f)
      right += dirty;
    const std::string size = size_text(m_trace.machine().l2_bytes.value), held_text = size + ", tiles held";
    const float left = label + px(8), room = w - left - text_width(m_ui.fonts.small, right) - px(8);
    const bool roomy = text_width(m_ui.fonts.small, held_text) <= room;
    text(m_ui.fonts.small, x + left, y + px(2), w - left, m_c.text_dim, roomy ? held_text : size);
    text(m_ui.fonts.small, x, y + px(2), w, m_c.text_dim, right, Align::right);
    const float squash = map_height / m_layout.height;
    for (const MapColumn& column : m_layout.columns)
      if (const TileMap* map = map_of(column.tensor))
        draw_tile_map(m_ui, m_list, {column.x, box.y + px(20), column.w, height_of(*map) * squash}, *map, MapView::l2,
                      std::string(m_name) + "l2" + name_of(column.tensor));
  }

 private:
  const TileMap* map_of(Tensor tensor) const {
    for (const TileMap& map : m_scene.maps)
      if (map.tensor == tensor) return &map;
    return nullptr;
  }

  std::string heads_text() const {
    const AttentionProblem& p = m_trace.schedule().problem();
    return "head " + std::to_string(m_scene.head + 1) + " of " + std::to_string(p.num_heads());
  }

  /// The tile under the mouse, in words: what a map of many small tiles cannot show.
  void tile_tip(const Rect& area, const TileMap& map, bool on_chip) {
    if (!ImGui::IsMouseHoveringRect({area.x, area.y}, {area.right(), area.bottom()}, false) || area.empty()) return;
    if (is_covered()) return;
    const ImVec2 mouse = ImGui::GetIO().MousePos;
    const auto cell_at = [](float from, float length, float at, int cells) {
      return std::clamp(static_cast<int>((at - from) / length * static_cast<float>(cells)), 0, cells - 1);
    };
    const int row = cell_at(area.y, area.h, mouse.y, map.down), col = cell_at(area.x, area.w, mouse.x, map.across);
    const TileCell& cell = map.at(row, col);
    static const char* passing[] = {
        "not computed yet", "on an SM now", "was on an SM, never in HBM",
        "was on an SM",     "was on an SM", "never computed: the mask leaves nothing of it"};
    static const char* states[] = {"not used yet", "on its way to an SM",
                                   "used",         "on its way from an SM",
                                   "written",      "never used: the mask leaves nothing of it"};
    const auto tiles = [&](int place) {
      return std::to_string(place * map.lump) +
             (map.lump > 1 ? " … " + std::to_string((place + 1) * map.lump - 1) : std::string());
    };
    std::string text = name_on_stage(map.tensor) + "[" + tiles(row) +
                       (is_score_shaped(map.tensor) ? ", " + tiles(col) : "") + "]: " + (map.lump > 1 ? "last " : "") +
                       (on_chip ? passing : states)[static_cast<std::size_t>(cell.state)];
    if (cell.in_l2) text += cell.dirty ? ", in L2, not yet in HBM" : ", in L2";
    ImGui::BeginTooltip();
    ImGui::TextUnformatted(text.c_str());
    if (std::min(area.w / static_cast<float>(map.across), area.h / static_cast<float>(map.down)) < px(9))
      magnifier(map, row, col, on_chip ? MapView::on_chip : MapView::state);
    ImGui::EndTooltip();
  }

  /// The tiles around one, large: where a map to scale has too few pixels for them.
  void magnifier(const TileMap& map, int row, int col, MapView view) {
    const int across = std::min(map.across, 11), down = std::min(map.down, 11);
    const int left = std::clamp(col - across / 2, 0, map.across - across);
    const int top = std::clamp(row - down / 2, 0, map.down - down);
    TileMap part{map.tensor, down, across, {}, map.lump};
    for (int r = 0; r < down; ++r)
      for (int c = 0; c < across; ++c) part.cells.push_back(map.at(top + r, left + c));
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float cell = px(15);
    const Rect place = {at.x, at.y, cell * static_cast<float>(across), cell * static_cast<float>(down)};
    ImDrawList* list = ImGui::GetWindowDrawList();
    draw_tile_map(m_ui, list, place, part, view, "magnifier");
    outline(list,
            {at.x + cell * static_cast<float>(col - left), at.y + cell * static_cast<float>(row - top), cell, cell},
            m_c.text, 0, px(2));
    ImGui::Dummy({place.w, place.h});
  }

  float height_of(const TileMap& map) const {
    const int tallest = std::max(m_trace.score_grid().down, m_trace.score_grid().across);
    return m_layout.height * std::min(1.0f, static_cast<float>(map.down) / static_cast<float>(tallest));
  }

  /// S where it would stand if it were stored: a dashed frame, in which the tiles that SMs work on pass by and fade.
  void draw_scores_on_chip(const MapColumn& column) {
    const TileMap& visits = m_scene.score_visits;
    const Rect area = {column.x, m_maps_top, column.w, height_of(visits)};
    draw_tile_map(m_ui, m_list, area, visits, MapView::on_chip, std::string(m_name) + "visits");
    dashed(m_list, area.inset(-px(2)), m_c.text_dim, px(4));
    tile_tip(area, visits, true);
    // Its name may go on over places that are empty here.
    float right = m_maps_right;
    for (const MapColumn& other : m_layout.columns)
      if (other.x > column.x && map_of(other.tensor)) right = std::min(right, other.label_x);
    const float room = right - column.label_x;
    const std::vector<std::string> names = names_of_scores_on_chip(m_trace.schedule().problem().pass);
    const auto name = std::find_if(names.begin(), names.end() - 1, [&](const std::string& longer) {
      return text_width(m_ui.fonts.small, longer) <= room;
    });
    const bool centred = text_width(m_ui.fonts.small, *name) <= column.label_w;
    text(m_ui.fonts.small, column.label_x, m_maps_top - px(16), centred ? column.label_w : room, m_c.text_dim, *name,
         centred ? Align::center : Align::left);
    const MapColumn* second = m_layout.find(Tensor::P);  // the next place for scores, empty as well
    if (!second || map_of(Tensor::P) || second->w < text_width(m_ui.fonts.small, "no S or P")) return;
    const float y = m_maps_top + area.h / 2 - px(17);
    text(m_ui.fonts.small, second->x, y, second->w, m_c.text_dim, "no S or P", Align::center);
    text(m_ui.fonts.small, second->x, y + px(16), second->w, m_c.text_dim, "in HBM", Align::center);
  }

  const MapLayout& m_layout;
  float m_maps_top = 0, m_maps_right = 0;
};

}  // namespace

void draw_stage_hbm(const StageView& view, const Rect& box, const MapLayout& layout) {
  MapsDrawing(view, layout).draw_hbm(box);
}

void draw_stage_l2(const StageView& view, const Rect& box, const MapLayout& layout, float map_height) {
  MapsDrawing(view, layout).draw_l2(box, map_height);
}

}  // namespace flashscope::viz
