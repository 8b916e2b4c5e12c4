// Where the tile maps of a stage stand beside each other, and what is written above them.
#pragma once
#include <string>
#include <vector>

#include "viz/core/stage_trace.h"
#include "viz/render/ui.h"

namespace flashscope::viz {

/// A map's place. `label` is empty where it is named by its neighbour's.
struct MapColumn {
  Tensor tensor = Tensor::Q;
  float x = 0, w = 0;
  std::string label;
  float label_x = 0, label_w = 0;  // its room: no other label reaches into it
};

struct MapLayout {
  std::vector<MapColumn> columns;
  float height = 0;  // of the tallest map
  const MapColumn* find(Tensor tensor) const;
};

/// To scale: a tile is as large in every matrix. `order`: the tensors of both stages, so that each has its place also
/// where one algorithm does not store it, and what one keeps in HBM stands beside the other's gap; where that leaves
/// the maps too small, the stage's own, by shorter names, closer together. Scores that stay on chip have a place in
/// either.
MapLayout map_layout(const Ui& ui, const StageTrace& trace, const std::vector<Tensor>& order, float x, float width,
                     float height);

/// What stands above the scores where they are not stored, the longest first.
std::vector<std::string> names_of_scores_on_chip(Pass pass);

}  // namespace flashscope::viz
