#include "viz/render/tile_map.h"

#include <algorithm>

namespace flashscope::viz {
namespace {

constexpr int kLargestRectMap = 64;  // tiles a side; above: one textured quad
constexpr float kSmallestRect = 4;   // pixels a tile; below: the gaps would eat the tiles

bool is_moving(TileState state) { return state == TileState::reading || state == TileState::writing; }

void draw_as_rects(const Ui& ui, ImDrawList* list, const Rect& area, const TileMap& map, MapView view, bool elsewhere) {
  const float w = area.w / static_cast<float>(map.across), h = area.h / static_cast<float>(map.down);
  const float gap = std::min(1.0f * ui.scale, std::min(w, h) * 0.2f);
  for (int row = 0; row < map.down; ++row)
    for (int col = 0; col < map.across; ++col) {
      const TileCell& cell = map.at(row, col);
      const Rect r = {area.x + static_cast<float>(col) * w, area.y + static_cast<float>(row) * h, w - gap, h - gap};
      if (cell.state == TileState::skipped && view == MapView::state) {
        hatch(list, r, with_alpha(ui.colors->text_dim, 0.55), ui.px(3));
        continue;
      }
      fill(list, r, tile_color(ui, map.tensor, cell, view));
      if (view == MapView::state && is_moving(cell.state) && !elsewhere && std::min(r.w, r.h) >= ui.px(4.5f))
        outline(list, r, ui.colors->accent, 0, std::max(1.0f, ui.scale));
    }
}

void draw_as_texture(const Ui& ui, ImDrawList* list, const Rect& area, const TileMap& map, MapView view,
                     const std::string& name) {
  std::vector<std::uint32_t> pixels;
  pixels.reserve(map.cells.size());
  for (const TileCell& cell : map.cells) {
    const bool skipped = cell.state == TileState::skipped && view == MapView::state;
    const Color color = skipped ? with_alpha(ui.colors->text_dim, 0.3) : tile_color(ui, map.tensor, cell, view);
    pixels.push_back(view == MapView::state && is_moving(cell.state) ? mixed(color, ui.colors->accent, 0.72) : color);
  }
  const ImTextureID texture = ui.textures->upload(name, map.across, map.down, pixels);
  list->AddImage(texture, {area.x, area.y}, {area.right(), area.bottom()});
}

}  // namespace

Color tile_color(const Ui& ui, Tensor tensor, const TileCell& cell, MapView view) {
  const Color color = ui.colors->of(tensor);
  if (view == MapView::l2)
    return cell.in_l2 ? mixed(color, ui.colors->box, cell.dirty ? 1.0 : 0.6) : mixed(color, ui.colors->box, 0.10);
  switch (cell.state) {
    case TileState::untouched: return mixed(color, ui.colors->box, 0.18);
    case TileState::reading:
    case TileState::writing: return color;
    case TileState::read:
    case TileState::written: return mixed(color, ui.colors->box, 0.62);
    case TileState::skipped: return mixed(ui.colors->text_dim, ui.colors->box, 0.2);
  }
  return color;
}

void draw_tile_map(const Ui& ui, ImDrawList* list, const Rect& area, const TileMap& map, MapView view,
                   const std::string& name, bool elsewhere) {
  if (area.empty() || map.down == 0 || map.across == 0) return;
  const bool large = std::max(map.down, map.across) > kLargestRectMap ||
                     area.w / static_cast<float>(map.across) < kSmallestRect * ui.scale * 0.5f ||
                     area.h / static_cast<float>(map.down) < kSmallestRect * ui.scale * 0.5f;
  if (large && ui.textures)
    draw_as_texture(ui, list, area, map, view, name);
  else
    draw_as_rects(ui, list, area, map, view, elsewhere);
}

}  // namespace flashscope::viz
