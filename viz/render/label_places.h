// Where the labels of a figure's guides go: beside their line, and on nothing else.
#pragma once
#include <optional>
#include <vector>

#include "viz/render/ui.h"

namespace flashscope::viz {

/// A label of a line right across the plot.
struct GuideLabel {
  bool vertical = false;
  float at = 0;     // x of a vertical line, y of another, in pixels
  float width = 0;  // of the text
};

struct LabelGround {
  Rect plot;
  float height = 0;                         // of a line of text
  float gap = 0;                            // between a label and its line
  std::vector<Rect> taken;                  // other labels
  std::vector<std::vector<ImVec2>> curves;  // polylines
  std::vector<Rect> dots = {};
};

/// For each label a place in the plot that touches no other label and no other guide, and where there is one, no curve
/// and no vertical guide either; without a value where even the first is not to be had. Labels earlier in the list
/// choose first.
std::vector<std::optional<Rect>> label_places(const std::vector<GuideLabel>& labels, const LabelGround& ground);

/// A place for the name of a curve: `wanted` where that is on nothing, else the nearest to the curve that is on no dot,
/// no curve and no other label, and of equally near ones the nearest to its end. `wanted` where the plot has none.
Rect place_beside(const std::vector<ImVec2>& curve, const Rect& wanted, const LabelGround& ground);

/// Whether the segment from a to b passes through the rectangle.
bool crosses(const Rect& r, ImVec2 a, ImVec2 b);

}  // namespace flashscope::viz
