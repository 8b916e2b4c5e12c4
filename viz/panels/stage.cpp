// From top to bottom as the data goes: HBM with the matrices as tile maps, the link to L2, what L2 holds of them, the
// links to the SMs, the SMs (one or two with what they hold, or all of them as cells), and the counters. Both stages
// share one geometry, so that what one algorithm keeps in HBM and the other does not stands side by side.
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "sim/schedule/algorithms.h"
#include "viz/core/text.h"
#include "viz/panels/panels.h"
#include "viz/render/rich_text.h"
#include "viz/render/tile_map.h"

namespace flashscope::viz {
namespace {

constexpr float kPixelsPerTbPerS = 6;  // width of a link

/// A tensor's name above its map.
const char* label_of(Tensor tensor) {
  return tensor == Tensor::O_split       ? "O parts"
         : tensor == Tensor::LSE_split   ? "LSE parts"
         : tensor == Tensor::block_table ? "pages"
                                         : name_of(tensor);
}

/// Where the matrices stand, in HBM and below it in L2.
struct MapColumn {
  Tensor tensor;
  float x, w;
};
struct MapLayout {
  std::vector<MapColumn> columns;
  float height = 0;
};

/// To scale: a tile is as large in every matrix. `order`: those of both stages, so that each has its place also where
/// one algorithm does not store it.
MapLayout map_layout(const Ui& ui, const StageTrace& trace, const std::vector<Tensor>& order, float x, float width,
                     float height) {
  const TileGrid& scores = trace.score_grid();
  const float gap = ui.px(17), statistic = ui.px(3);
  // Columns narrower than their names keep a distance at which those do not touch.
  const auto label_w = [&](Tensor tensor) { return text_width(ui.fonts.small, label_of(tensor)) - gap + ui.px(7); };
  const AttentionProblem& problem = trace.schedule().problem();
  // Elements decide the width, so that d = 64 beside Bc = 64 is as wide as a tile of S.
  const auto tiles_across = [&](Tensor tensor) {
    return is_score_shaped(tensor)
               ? static_cast<float>(scores.across)
               : std::max(1.0f, static_cast<float>(problem.head_dim) / static_cast<float>(scores.cell_cols()));
  };
  float across = 0, fixed = 0;
  for (Tensor tensor : order) {
    if (is_statistic(tensor))
      fixed += std::max(statistic, label_w(tensor));
    else
      across += tiles_across(tensor);
    if (!is_statistic(tensor) && !is_score_shaped(tensor)) fixed += std::max(0.0f, label_w(tensor) - statistic);
    fixed += gap;
  }
  const float down = static_cast<float>(std::max(scores.down, scores.across));
  const float cell = std::max(0.01f, std::min({(width - fixed) / across, height / down, ui.px(26)}));
  MapLayout layout;
  layout.height = cell * down;
  float used = -gap;
  const auto width_of = [&](Tensor tensor) {
    return is_statistic(tensor) ? statistic : std::max(ui.px(3), cell * tiles_across(tensor));
  };
  for (Tensor tensor : order) used += std::max(width_of(tensor), label_w(tensor)) + gap;
  float at = x + std::max(0.0f, (width - used) / 2);
  for (Tensor tensor : order) {
    const float w = width_of(tensor), place = std::max(w, label_w(tensor));
    layout.columns.push_back({tensor, at + (place - w) / 2, w});
    at += place + gap;
  }
  return layout;
}

class StageDrawing {
 public:
  StageDrawing(const Ui& ui, ImDrawList* list, const Rect& area, const char* name, const StageTrace& trace,
               const Scene& scene, const std::vector<Tensor>& order, int level)
      : m_ui(ui),
        m_c(*ui.colors),
        m_list(list),
        m_area(area),
        m_name(name),
        m_trace(trace),
        m_scene(scene),
        m_order(order),
        m_level(level) {}

  void draw() {
    const float pad = px(8);
    float y = m_area.y + px(5);
    title(y);
    y += px(25);
    kernels(y);
    y += px(21);

    // What is left after the parts of fixed height goes to the maps: five parts HBM, two parts L2.
    const float x = m_area.x + pad, w = m_area.w - 2 * pad;
    // Wide SMs hold their tiles in one line.
    const bool roomy = w / static_cast<float>(std::max<std::size_t>(1, m_scene.sms.size())) > px(235);
    const float link = px(30), sm_height = px(roomy && m_level > 0 ? 122 : 158), counters_height = px(44);
    const float header = px(20), letters = px(15), foot = px(6);
    const float maps =
        m_area.bottom() - y - 2 * link - sm_height - counters_height - 2 * (header + foot) - letters - px(8);
    m_layout = map_layout(m_ui, m_trace, m_order, x + px(8), w - px(16), std::max(px(20), maps * 5 / 7));
    const float l2_maps = std::max(px(12), std::min(maps - m_layout.height, m_layout.height));
    const Rect hbm = {x, y, w, header + letters + m_layout.height + foot};
    const Rect l2 = {x, hbm.bottom() + link, w, header + l2_maps + foot};
    const float sms_top = l2.bottom() + link;
    const Rect sms = {x, sms_top, w, std::max(sm_height, m_area.bottom() - counters_height - px(8) - sms_top)};

    draw_hbm(hbm);
    draw_l2(l2, l2_maps);
    draw_links(hbm, l2, sms);
    draw_sms(sms);
    draw_tiles_in_flight(hbm, l2, sms);
    counters({x, m_area.bottom() - counters_height, w, counters_height});
  }

 private:
  float px(float units) const { return m_ui.px(units); }
  float text(ImFont* font, float x, float y, float w, Color color, const std::string& s, Align align = Align::left) {
    return draw_text(m_ui, m_list, font, x, y, w, color, s, align);
  }

  void title(float y) {
    const std::string& algorithm = m_trace.schedule().algorithm();
    const float x = m_area.x + px(10), w = m_area.w - px(20);
    const float name = text(m_ui.fonts.title, x, y, w, m_c.text, algorithm);
    const double us = static_cast<double>(m_trace.duration()) / 1e6;
    const std::string status =
        m_scene.finished ? "done after " + time_text(us)
                         : grouped(m_scene.busy_sms) + " of " +
                               grouped(static_cast<std::int64_t>(m_trace.machine().num_sms.value)) + " SMs busy";
    text(m_scene.finished ? m_ui.fonts.bold : m_ui.fonts.body, x + name + px(12), y + px(3), w - name - px(12),
         m_scene.finished ? m_c.good : m_c.text_dim, status, Align::right);
  }

  /// The kernels in launch order, the one that runs underlined.
  void kernels(float y) {
    float x = m_area.x + px(10);
    const float right = m_area.right() - px(10);
    const auto& launches = m_trace.schedule().kernels();
    const auto without = [](std::string text, const std::string& prefix) {
      return text.rfind(prefix, 0) == 0 ? text.substr(prefix.size()) : text;
    };
    std::vector<std::string> names;
    float needed = 0;
    for (const KernelLaunch& launch : launches) {
      std::string name = without(without(launch.name, m_trace.schedule().algorithm() + "_"), "backward_");
      std::replace(name.begin(), name.end(), '_', ' ');
      names.push_back(name);
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
  }

  const TileMap* map_of(Tensor tensor) const {
    for (const TileMap& map : m_scene.maps)
      if (map.tensor == tensor) return &map;
    return nullptr;
  }

  std::string heads_text() const {
    const AttentionProblem& p = m_trace.schedule().problem();
    return "head " + std::to_string(m_scene.head + 1) + " of " + std::to_string(p.num_heads());
  }

  void draw_hbm(const Rect& box) {
    fill(m_list, box, m_c.box, px(4));
    outline(m_list, box, m_c.of(Reason::hbm), px(4), px(1.5f));
    const Machine& machine = m_trace.machine();
    const float x = box.x + px(8), w = box.w - px(16), y = box.y + px(2);
    const float label = text(m_ui.fonts.bold, x, y, w, m_c.of(Reason::hbm), "HBM");
    text(m_ui.fonts.small, x + label + px(8), y + px(2), w, m_c.text_dim, size_text(machine.hbm_bytes.value));
    text(m_ui.fonts.small, x, y + px(2), w, m_c.text_dim, heads_text(), Align::right);
    m_maps_top = box.y + px(20) + px(15);
    bool ghost_drawn = false;
    for (const MapColumn& column : m_layout.columns) {
      const TileMap* map = map_of(column.tensor);
      const bool is_score = is_score_shaped(column.tensor);
      if (map) {
        text(m_ui.fonts.small, column.x - px(30), m_maps_top - px(16), column.w + px(60), m_c.text,
             label_of(column.tensor), Align::center);
        draw_tile_map(m_ui, m_list, {column.x, m_maps_top, column.w, height_of(*map)}, *map, MapView::state,
                      std::string(m_name) + name_of(column.tensor));
        tile_tip({column.x, m_maps_top, column.w, height_of(*map)}, *map);
      } else if (is_score && !ghost_drawn && m_trace.scores_stay_on_chip()) {
        ghost_drawn = true;
        draw_scores_on_chip(column);
      }
    }
  }

  /// The tile under the mouse, in words: what a map of many small tiles cannot show.
  void tile_tip(const Rect& area, const TileMap& map) {
    if (!ImGui::IsMouseHoveringRect({area.x, area.y}, {area.right(), area.bottom()}, false) || area.empty()) return;
    const ImVec2 mouse = ImGui::GetIO().MousePos;
    const auto cell_at = [](float from, float length, float at, int cells) {
      return std::clamp(static_cast<int>((at - from) / length * static_cast<float>(cells)), 0, cells - 1);
    };
    const int row = cell_at(area.y, area.h, mouse.y, map.down), col = cell_at(area.x, area.w, mouse.x, map.across);
    const TileCell& cell = map.at(row, col);
    static const char* states[] = {"not used yet", "on its way to an SM",
                                   "used",         "on its way from an SM",
                                   "written",      "never used: the mask leaves nothing of it"};
    const auto tiles = [&](int place) {
      return std::to_string(place * map.lump) +
             (map.lump > 1 ? " … " + std::to_string((place + 1) * map.lump - 1) : std::string());
    };
    std::string text = std::string(name_of(map.tensor)) + "[" + tiles(row) +
                       (is_score_shaped(map.tensor) ? ", " + tiles(col) : "") +
                       "]: " + (map.lump > 1 ? "last " : "") + states[static_cast<std::size_t>(cell.state)];
    if (cell.in_l2) text += cell.dirty ? ", in L2, not yet in HBM" : ", in L2";
    ImGui::BeginTooltip();
    ImGui::TextUnformatted(text.c_str());
    if (std::min(area.w / static_cast<float>(map.across), area.h / static_cast<float>(map.down)) < px(9))
      magnifier(map, row, col);
    ImGui::EndTooltip();
  }

  /// The tiles around one, large: where a map to scale has too few pixels for them.
  void magnifier(const TileMap& map, int row, int col) {
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
    draw_tile_map(m_ui, list, place, part, MapView::state, "magnifier");
    outline(list,
            {at.x + cell * static_cast<float>(col - left), at.y + cell * static_cast<float>(row - top), cell, cell},
            m_c.text, 0, px(2));
    ImGui::Dummy({place.w, place.h});
  }

  float height_of(const TileMap& map) const {
    const int tallest = std::max(m_trace.score_grid().down, m_trace.score_grid().across);
    return m_layout.height * std::min(1.0f, static_cast<float>(map.down) / static_cast<float>(tallest));
  }

  /// S where it would stand if it were stored: an empty frame, in which the tiles that SMs work on pass by.
  void draw_scores_on_chip(const MapColumn& column) {
    const TileMap& visits = m_scene.score_visits;
    const Rect area = {column.x, m_maps_top, column.w, height_of(visits)};
    draw_tile_map(m_ui, m_list, area, visits, MapView::state, std::string(m_name) + "visits", true);
    // A backward pass that stores no P computes the scores of the forward pass a second time.
    const bool again = m_trace.schedule().problem().pass == Pass::backward;
    const char* const full = again ? "S, recomputed" : "S, on chip only";
    const bool roomy = column.w >= text_width(m_ui.fonts.small, full);
    const float left = column.x - (roomy ? 0 : px(6));
    float room = column.w + px(60);  // its neighbour at the right has a name, too, which may be wider than its column
    for (const MapColumn& other : m_layout.columns)
      if (other.x > column.x) room = std::min(room, other.x - px(10) - left);
    const char* where = full;
    for (const char* shorter : {again ? "S again" : "S", "S"})
      if (text_width(m_ui.fonts.small, where) > std::max(room, column.w)) where = shorter;
    text(m_ui.fonts.small, left, m_maps_top - px(16), std::max(column.w, px(110)), m_c.text_dim, where,
         roomy ? Align::center : Align::left);
    const MapColumn* second = nullptr;  // the next place for scores, empty as well
    for (const MapColumn& other : m_layout.columns)
      if (is_score_shaped(other.tensor) && other.tensor != column.tensor && !second && !map_of(other.tensor))
        second = &other;
    if (second && second->tensor == Tensor::P && roomy) {
      const float y = m_maps_top + area.h / 2 - px(17);
      text(m_ui.fonts.small, second->x, y, second->w, m_c.text_dim, "no S or P", Align::center);
      text(m_ui.fonts.small, second->x, y + px(16), second->w, m_c.text_dim, "in HBM", Align::center);
    }
  }

  void draw_l2(const Rect& box, float map_height) {
    fill(m_list, box, m_c.box, px(4));
    outline(m_list, box, m_c.of(Reason::l2), px(4), px(1.5f));
    const float x = box.x + px(8), w = box.w - px(16), y = box.y + px(2);
    const float label = text(m_ui.fonts.bold, x, y, w, m_c.of(Reason::l2), "L2");
    text(m_ui.fonts.small, x + label + px(8), y + px(2), w, m_c.text_dim,
         size_text(m_trace.machine().l2_bytes.value) + ", tiles held");
    std::int64_t held = 0, cells = 0;
    for (const TileMap& map : m_scene.maps)
      if (!is_statistic(map.tensor))
        for (const TileCell& cell : map.cells) {
          held += cell.in_l2;
          ++cells;
        }
    std::string right = grouped(held) + " of " + grouped(cells);
    if (m_scene.finished && m_trace.prediction().hbm_dirty_bytes > 0)
      right += ", " + size_text(static_cast<double>(m_trace.prediction().hbm_dirty_bytes)) + " not yet in HBM";
    text(m_ui.fonts.small, x, y + px(2), w, m_c.text_dim, right, Align::right);
    const float squash = map_height / m_layout.height;
    for (const MapColumn& column : m_layout.columns)
      if (const TileMap* map = map_of(column.tensor))
        draw_tile_map(m_ui, m_list, {column.x, box.y + px(20), column.w, height_of(*map) * squash}, *map, MapView::l2,
                      std::string(m_name) + "l2" + name_of(column.tensor));
  }

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

  void draw_links(const Rect& hbm, const Rect& l2, const Rect& sms) {
    const float center = hbm.x + hbm.w / 2;
    pipe(center, hbm.bottom(), l2.y, m_scene.hbm.gb_per_s, m_scene.hbm.used_share, m_c.of(Reason::hbm));
    pipe(center, l2.bottom(), sms.y, m_scene.l2.gb_per_s, m_scene.l2.used_share, m_c.of(Reason::l2));
    const float x = center + px(35);
    // In a narrow stage with large type the way of the last SM's tiles begins where the text would end.
    const bool crossed = m_level < kWholeGpu && !m_scene.sms.empty();
    const float w = crossed ? std::min(px(112), port_x(sms, m_scene.sms.back().sm) - px(14) - x) : px(112);
    const auto use = [&](const LinkView& link) {
      const std::string share = percent_text(link.used_share), whole = share + " of " + bandwidth_text(link.gb_per_s);
      return text_width(m_ui.fonts.small, whole) <= w ? whole : share;
    };
    text(m_ui.fonts.small, x, hbm.bottom() + px(7), w, m_c.text, use(m_scene.hbm));
    text(m_ui.fonts.small, x, l2.bottom() + px(7), w, m_c.text, use(m_scene.l2));
    const Machine& machine = m_trace.machine();
    if (m_level >= kWholeGpu) return;
    const double port = machine.l2_bytes_per_clk_per_sm.value * machine.sm_clock_mhz.value / 1e3;
    for (const SmView& sm : m_scene.sms) pipe(port_x(sms, sm.sm), l2.bottom(), sms.y, port, 0, m_c.of(Reason::l2));
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

  void draw_sms(const Rect& area) {
    if (m_level >= kWholeGpu) return draw_gpu(area);
    const float gap = px(8);
    const float count = static_cast<float>(m_scene.sms.size());
    const float w = (area.w - gap * (count - 1)) / count;
    for (const SmView& sm : m_scene.sms)
      draw_sm({area.x + static_cast<float>(sm.sm) * (w + gap), area.y, w, area.h}, sm);
  }

  /// Every SM as a cell, its slots as stripes in the colour of what they do or wait for.
  void draw_gpu(const Rect& box) {
    fill(m_list, box, m_c.box, px(4));
    outline(m_list, box, m_c.of(Reason::smem), px(4), px(1.5f));
    const auto num_sms = static_cast<int>(m_trace.machine().num_sms.value);
    const float x = box.x + px(7), w = box.w - px(14);
    const float label = text(m_ui.fonts.bold, x, box.y + px(3), w, m_c.text, std::to_string(num_sms) + " SMs");
    const GridProgress& grid = m_scene.grid;
    const std::string waves = m_scene.kernel < 0
                                  ? (m_scene.finished ? "all CTAs done" : "between kernels")
                                  : "wave " + std::to_string(grid.wave) + " of " + std::to_string(grid.waves) + ", " +
                                        grouped(grid.done) + " of " + grouped(grid.ctas) + " CTAs done";
    text(m_ui.fonts.small, x + label + px(8), box.y + px(5), w - label - px(8), m_c.text_dim, waves, Align::right);
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
      return;
    }
    const auto name = [](const CtaView& cta) {
      return "CTA " + grouped(cta.cta) + ", head " + std::to_string(cta.head + 1);
    };
    if (m_level == 0 && sm.ctas.size() > 1) {  // both CTAs, side by side
      const float half = (w - px(16)) / 2;
      y += px(20);
      for (std::size_t n = 0; n < 2; ++n) {
        const float left = x + static_cast<float>(n) * (half + px(16));
        text(m_ui.fonts.small, left, y, half, m_c.text_dim, name(sm.ctas[n]));
        one_cta(left, y + px(17), half, sm.ctas[n], box.bottom(), box.bottom());
      }
      fill(m_list, {x + half + px(8), y, 1, box.bottom() - y - px(8)}, m_c.line);
      if (sm.ctas.size() > 2)
        text(m_ui.fonts.small, x + label, box.y + px(5), w - label, m_c.text_dim,
             "and " + std::to_string(sm.ctas.size() - 2) + " more", Align::right);
      return;
    }
    const CtaView& cta = sm.ctas.front();
    text(m_ui.fonts.small, x + label + px(6), y + px(2), w - label - px(6), m_c.text_dim, name(cta), Align::right);
    // In large type many tiles may want more lines than the box has: what is below it belongs to others.
    m_list->PushClipRect({box.x, box.y}, {box.right(), box.bottom()}, true);
    const float below =
        one_cta(x, y + px(20), w, cta, box.bottom() - px(sm.ctas.size() > 1 ? 20 : 2), box.bottom() - px(2));
    m_list->PopClipRect();
    if (below <= box.bottom() - px(18)) others({x, box.bottom() - px(20), w, px(16)}, sm);
  }

  /// How close together what a CTA holds is drawn.
  struct Closeness {
    float tile_h, gap;         // of tiles, and between their lines
    bool gauges_in_one_line;   // acc beside m and l
    bool label_above = false;  // "SMEM" has a line of its own, so that lines of tiles are longer
  };

  /// Returns the y below it: above `bottom` where some closeness achieves that, else above `end`, else as it comes.
  /// Gauges that share a line have no room for their numbers, and come last.
  float one_cta(float x, float y, float w, const CtaView& cta, float bottom, float end) {
    operation(x, y, w, cta);
    y += px(23);
    const Closeness roomy = {px(22), px(4), false}, closer = {px(22), px(1), false}, close = {px(19), px(1), false},
                    closest = {px(17), px(1), false}, stacked = {px(17), px(1), false, true},
                    shared = {px(17), px(1), true}, dense = {px(16), px(0), true, true};
    const std::pair<Closeness, float> choices[] = {{roomy, bottom},   {closer, bottom}, {close, bottom},
                                                   {closest, bottom}, {close, end},     {closest, end},
                                                   {stacked, end},    {shared, end},    {dense, end}};
    const auto* choice = std::begin(choices);
    while (choice + 1 != std::end(choices) && y + height_of(cta, w, choice->first) > choice->second) ++choice;
    return registers(x, held_tiles(x, y, w, cta, choice->first), w, cta, choice->first);
  }

  float height_of(const CtaView& cta, float w, const Closeness& close) const {
    const float line = close.tile_h + close.gap;
    const int gauges = close.gauges_in_one_line ? (cta.has_acc || cta.has_rows) : cta.has_acc + cta.has_rows;
    const int in_smem = std::max(1, lines_of(cta, false, w + (close.label_above ? px(44) : 0)) + close.label_above);
    return line * static_cast<float>(in_smem + lines_of(cta, true, w)) + px(17) * static_cast<float>(gauges);
  }

  float width_of(const HeldTile& tile) const {
    return std::max(px(28), text_width(m_ui.fonts.small, tile.name) + px(8));
  }

  /// Lines that the tiles in SMEM, or those in registers, take.
  int lines_of(const CtaView& cta, bool in_registers, float w) const {
    int lines = 0;
    float room = 0;
    for (const HeldTile& tile : cta.tiles) {
      if (tile.in_registers != in_registers) continue;
      if (lines == 0 || width_of(tile) > room) {
        room = w - px(44);
        ++lines;
      }
      room -= width_of(tile) + px(4);
    }
    return lines;
  }

  void operation(float x, float y, float w, const CtaView& cta) {
    const Color color = m_c.of(cta.reason);
    fill(m_list, {x, y + px(4), px(9), px(9)}, color, px(1));
    text(m_ui.fonts.small, x + px(14), y, w - px(14), m_c.text, cta.doing);
    const Rect bar = {x, y + px(17), w, px(2)};
    fill(m_list, bar, m_c.grip);
    fill(m_list, {bar.x, bar.y, bar.w * static_cast<float>(cta.progress), bar.h}, color);
  }

  /// The tiles in SMEM, or those in registers, in as many lines as they take; returns the y below them.
  float tiles_in_lines(float x, float y, float w, const CtaView& cta, bool in_registers, const Closeness& close) {
    const float left = x + (close.label_above && !in_registers ? 0 : px(44));
    float at = left;
    for (const HeldTile& tile : cta.tiles) {
      if (tile.in_registers != in_registers) continue;
      const float tile_w = width_of(tile);
      if (at > left && at + tile_w > x + w) {
        at = left;
        y += close.tile_h + close.gap;
      }
      held_tile({at, y - px(2), tile_w, close.tile_h}, tile);
      at += tile_w + px(4);
    }
    return y + close.tile_h + close.gap;
  }

  float held_tiles(float x, float y, float w, const CtaView& cta, const Closeness& close) {
    text(m_ui.fonts.small, x, y, w, cta.has_smem ? m_c.of(Reason::smem) : m_c.text_dim,
         cta.has_smem ? "SMEM" : "reads");
    if (close.label_above) y += close.tile_h + close.gap;
    return tiles_in_lines(x, y, w, cta, false, close);
  }

  void held_tile(const Rect& r, const HeldTile& tile) {
    const Color color = m_c.of(tile.tensor);
    const Color faint = mixed(color, m_c.box, tile.spent ? 0.12 : 0.25);
    fill(m_list, r, faint, px(2));
    if (!tile.spent) fill(m_list, {r.x, r.y, r.w * static_cast<float>(tile.filled), r.h}, color, px(2));
    outline(m_list, r, tile.in_use ? m_c.accent : color, px(2), tile.in_use ? px(2) : 1);
    // The name stands half on the colour and half beside it while the tile fills: each half in the ink that is read
    // there.
    const float edge = tile.spent ? r.x : r.x + r.w * static_cast<float>(tile.filled);
    const auto name = [&](float from, float to, Color ink) {
      if (to <= from) return;
      m_list->PushClipRect({from, 0}, {to, 1e6f}, true);
      text(m_ui.fonts.small, r.x, r.y + (r.h - px(16)) / 2, r.w, ink, tile.name, Align::center);
      m_list->PopClipRect();
    };
    name(r.x, edge, m_c.ink_on(color));
    name(edge, r.right(), tile.spent ? m_c.text_dim : m_c.text);
  }

  float registers(float x, float y, float w, const CtaView& cta, const Closeness& close) {
    const bool has_tiles = lines_of(cta, true, w) > 0;
    if (!cta.has_acc && !cta.has_rows && !has_tiles) return y;
    text(m_ui.fonts.small, x, y, w, m_c.text_dim, "regs");
    if (has_tiles) y = tiles_in_lines(x, y, w, cta, true, close);
    const float left = x + px(44), bar = px(13), step = px(17), gap = px(4);
    const bool beside = close.gauges_in_one_line && cta.has_acc && cta.has_rows;
    const float full = w - px(44), half = (full - gap) / 2;
    if (cta.has_acc) {
      const std::string done =
          "acc " + std::to_string(static_cast<int>(cta.acc_done)) + "/" + std::to_string(cta.acc_total);
      gauge({left, y, beside ? half : full, bar}, cta.acc_done / std::max(1, cta.acc_total), m_c.of(Tensor::O),
            {done, "acc"});
      if (!beside) y += step;
    }
    if (cta.has_rows) {
      const bool updating = cta.rows_progress > 0;
      const double share = updating ? cta.rows_progress : cta.rows_updates > 0 ? 1 : 0;
      const std::string updates = std::to_string(cta.rows_updates + updating);
      gauge({beside ? left + half + gap : left, y, beside ? half : full, bar}, share, m_c.of(Tensor::LSE),
            {"m, l  update " + updates, "m, l  " + updates, "m, l"});
    }
    return beside || cta.has_rows ? y + step : y;
  }

  /// The first of the labels that fits, else the last: the fill says how far it is.
  void gauge(const Rect& r, double share, Color color, const std::vector<std::string>& labels) {
    fill(m_list, r, m_c.grip, px(2));
    fill(m_list, {r.x, r.y, r.w * static_cast<float>(std::clamp(share, 0.0, 1.0)), r.h}, mixed(color, m_c.box, 0.45),
         px(2));
    const auto fitting = std::find_if(labels.begin(), labels.end(), [&](const std::string& label) {
      return text_width(m_ui.fonts.small, label) <= r.w - px(8);
    });
    text(m_ui.fonts.small, r.x + px(5), r.y - px(1), r.w - px(8), m_c.text,
         fitting == labels.end() ? labels.back() : *fitting);
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
    if (sm.ctas.size() == 2) text(m_ui.fonts.small, x, area.y, area.right() - x, m_c.text_dim, sm.ctas[1].doing);
  }

  void counters(const Rect& area) {
    const Moved all = m_trace.moved_in_all();
    const Moved& now = m_scene.moved;
    const ClosedForm& form = m_trace.closed_form();
    const float w = area.w / 2 - px(6), x2 = area.x + area.w / 2 + px(6);
    counter({area.x, area.y + px(2), w, px(18)}, "SM read", now.sm_read, all.sm_read,
            all.sm_read == form.sm_read_bytes);
    counter({area.x, area.y + px(22), w, px(18)}, "SM write", now.sm_write, all.sm_write,
            all.sm_write == form.sm_write_bytes);
    counter({x2, area.y + px(2), w, px(18)}, "HBM read", now.hbm_read, all.hbm_read, false);
    counter({x2, area.y + px(22), w, px(18)}, "HBM write", now.hbm_write, all.hbm_write, false);
  }

  /// So far of the total; at the end, whether the formula gives the same.
  void counter(const Rect& r, const char* name, std::int64_t now, std::int64_t all, bool equals_closed_form) {
    const bool checked = m_scene.finished && equals_closed_form;
    const double share = all == 0 ? 0 : static_cast<double>(now) / static_cast<double>(all);
    text(m_ui.fonts.small, r.x, r.y, r.w, m_c.text_dim, name);
    const double total = static_cast<double>(all);
    const std::string whole = all == 0 ? "0 MB" : counter_digits(total, total) + counter_unit(total);
    const auto fits = [&](const std::string& value) {
      return text_width(m_ui.fonts.small, name) + px(6) + text_width(m_ui.fonts.small, value) <= r.w;
    };
    std::string value = m_scene.finished ? whole + (checked ? " = formula ✓" : "")
                                         : counter_digits(static_cast<double>(now), total) + " of " + whole;
    // Beside its name, in large type, there is room for less: the bar below says what share it is.
    if (!fits(m_scene.finished ? value : counter_digits(total, total) + " of " + whole))
      value = m_scene.finished ? whole + (checked ? " ✓" : "")
                               : counter_digits(static_cast<double>(now), total) + (all == 0 ? "" : counter_unit(total));
    text(m_ui.fonts.small, r.x, r.y, r.w, checked ? m_c.good : m_c.text, value, Align::right);
    const Rect bar = {r.x, r.y + px(16), r.w, px(2)};
    fill(m_list, bar, m_c.grip);
    fill(m_list, {bar.x, bar.y, bar.w * static_cast<float>(share), bar.h}, checked ? m_c.good : m_c.text_dim);
  }

  const Ui& m_ui;
  const Palette& m_c;
  ImDrawList* m_list;
  const Rect m_area;
  const char* m_name;
  const StageTrace& m_trace;
  const Scene& m_scene;
  const std::vector<Tensor>& m_order;
  const int m_level;
  MapLayout m_layout;
  float m_maps_top = 0;
};

}  // namespace

void stage_panel(const Ui& ui, const Rect& area, const char* name, const StageTrace& trace, const Scene& scene,
                 const std::vector<Tensor>& order, int level) {
  ImDrawList* list = begin_panel(ui, name, area, false);
  StageDrawing(ui, list, area, name, trace, scene, order, level).draw();
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
