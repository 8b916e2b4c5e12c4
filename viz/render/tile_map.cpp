#include "viz/render/tile_map.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace flashscope::viz {
namespace {

constexpr int kLargestRectMap = 64;  // tiles a side; above: one textured quad
constexpr float kSmallestRect = 4;   // pixels a tile; below: the gaps would eat the tiles

bool is_moving(TileState state) { return state == TileState::reading || state == TileState::writing; }

/// Written, and so far only L2 has it: the map of HBM shows it as on its way.
bool is_only_in_l2(const TileCell& cell, MapView view) {
  return view == MapView::state && cell.dirty && !is_moving(cell.state);
}

void draw_as_rects(const Ui& ui, ImDrawList* list, const Rect& area, const TileMap& map, MapView view) {
  const float w = area.w / static_cast<float>(map.across), h = area.h / static_cast<float>(map.down);
  const float gap = std::min(1.0f * ui.scale, std::min(w, h) * 0.2f);
  for (int row = 0; row < map.down; ++row)
    for (int col = 0; col < map.across; ++col) {
      const TileCell& cell = map.at(row, col);
      const Rect r = {area.x + static_cast<float>(col) * w, area.y + static_cast<float>(row) * h, w - gap, h - gap};
      if (cell.state == TileState::skipped && view != MapView::l2) {
        hatch(list, r, with_alpha(ui.colors->text_dim, 0.55), ui.px(3));
        continue;
      }
      if (is_only_in_l2(cell, view) && std::min(r.w, r.h) >= 3) {  // hollow: nothing of it is in HBM yet
        fill(list, r, mixed(ui.colors->of(map.tensor), ui.colors->box, 0.62));
        fill(list, r.inset(std::max(1.0f, std::floor(std::min(r.w, r.h) / 5))), tile_color(ui, map.tensor, {}, view));
        continue;
      }
      fill(list, r, tile_color(ui, map.tensor, cell, view));
      if (view == MapView::state && is_moving(cell.state) && std::min(r.w, r.h) >= ui.px(4.5f))
        outline(list, r, ui.colors->accent, 0, std::max(1.0f, ui.scale));
    }
}

void draw_as_texture(const Ui& ui, ImDrawList* list, const Rect& area, const TileMap& map, MapView view,
                     const std::string& name) {
  // A texel a tile, but no more than two texels a pixel: beyond that a texel stands for the tile in its middle.
  const auto stride = [](int tiles, float pixels) {
    return std::max(1, static_cast<int>(std::ceil(static_cast<float>(tiles) / (2 * std::max(1.0f, pixels)))));
  };
  const int step_x = stride(map.across, area.w), step_y = stride(map.down, area.h);
  const int across = (map.across + step_x - 1) / step_x, down = (map.down + step_y - 1) / step_y;
  // Of the few kinds of cells each colour is mixed once.
  constexpr int kStates = static_cast<int>(TileState::skipped) + 1;
  std::array<Color, kStates * 4> colors;
  for (int state = 0; state < kStates; ++state)
    for (int l2 = 0; l2 < 4; ++l2) {
      const TileCell cell{static_cast<TileState>(state), (l2 & 1) != 0, (l2 & 2) != 0};
      const bool skipped = cell.state == TileState::skipped && view != MapView::l2;
      const Color color = skipped ? with_alpha(ui.colors->text_dim, 0.3) : tile_color(ui, map.tensor, cell, view);
      colors[static_cast<std::size_t>(state * 4 + l2)] =
          view == MapView::state && is_moving(cell.state) ? mixed(color, ui.colors->accent, 0.72) : color;
    }
  std::vector<std::uint32_t> pixels;
  pixels.reserve(static_cast<std::size_t>(across) * down);
  for (int row = 0; row < down; ++row)
    for (int col = 0; col < across; ++col) {
      const TileCell& cell = map.at(std::min(map.down - 1, row * step_y + step_y / 2),
                                    std::min(map.across - 1, col * step_x + step_x / 2));
      pixels.push_back(colors[static_cast<std::size_t>(cell.state) * 4 + cell.in_l2 + 2 * cell.dirty]);
    }
  const ImTextureID texture = ui.textures->upload(name, across, down, pixels);
  list->AddImage(texture, {area.x, area.y}, {area.right(), area.bottom()});
}

}  // namespace

Color tile_color(const Ui& ui, Tensor tensor, const TileCell& cell, MapView view) {
  const Color color = ui.colors->of(tensor);
  if (view == MapView::l2)
    return cell.in_l2 ? mixed(color, ui.colors->box, cell.dirty ? 1.0 : 0.6) : mixed(color, ui.colors->box, 0.10);
  const bool on_chip = view == MapView::on_chip;
  switch (cell.state) {
    case TileState::untouched: return mixed(color, ui.colors->box, on_chip ? 0.06 : 0.18);
    case TileState::reading:
    case TileState::writing: return color;
    case TileState::read:
    case TileState::written:
      return mixed(color, ui.colors->box, on_chip ? 0.22 : is_only_in_l2(cell, view) ? 0.38 : 0.62);
    case TileState::skipped: return mixed(ui.colors->text_dim, ui.colors->box, 0.2);
  }
  return color;
}

void draw_tile_map(const Ui& ui, ImDrawList* list, const Rect& area, const TileMap& map, MapView view,
                   const std::string& name) {
  if (area.empty() || map.down == 0 || map.across == 0) return;
  const bool large = std::max(map.down, map.across) > kLargestRectMap ||
                     area.w / static_cast<float>(map.across) < kSmallestRect * ui.scale * 0.75f ||
                     area.h / static_cast<float>(map.down) < kSmallestRect * ui.scale * 0.75f;
  if (large && ui.textures)
    draw_as_texture(ui, list, area, map, view, name);
  else
    draw_as_rects(ui, list, area, map, view);
}

}  // namespace flashscope::viz
