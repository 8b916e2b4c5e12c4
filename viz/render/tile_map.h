// Tile maps: a matrix as its tiles, coloured by tensor, shaded by state.
#pragma once
#include <string>

#include "viz/core/scene.h"
#include "viz/render/ui.h"

namespace flashscope::viz {

/// Which question a map answers: what has happened to each tile; which tiles L2 holds; or which tiles are on an SM, of
/// a matrix that is nowhere else: those that were fade.
enum class MapView { state, l2, on_chip };

/// Fills `area` with the map. `name` tells its texture from others.
void draw_tile_map(const Ui& ui, ImDrawList* list, const Rect& area, const TileMap& map, MapView view,
                   const std::string& name);

/// The colour of a tile that is moving, done, not yet reached.
Color tile_color(const Ui& ui, Tensor tensor, const TileCell& cell, MapView view);

}  // namespace flashscope::viz
