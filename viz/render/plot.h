// Figures drawn with ImGui's draw lists: axes with units, logarithmic scales, ticks, legend, guides, values under the
// mouse. Every polyline stays far below the 65,535 vertices that a draw list's 16-bit indices reach.
#pragma once
#include "viz/core/figure.h"
#include "viz/render/ui.h"

namespace flashscope::viz {

/// Fills `area`. A series is told by its colour and by its mark: circles left, squares right, filled predicted, open
/// measured. Returns the point under the mouse, as places in the figure's series and points, or -1, -1.
struct FigureHit {
  int series = -1, point = -1;
};
FigureHit draw_figure(const Ui& ui, ImDrawList* list, const Rect& area, const Figure& figure);

/// A horizontal bar of `share` of the width of `area`, with its text to the right where there is room, else inside.
void draw_bar(const Ui& ui, ImDrawList* list, const Rect& area, double share, Color color, const std::string& text,
              double further = 0);

}  // namespace flashscope::viz
