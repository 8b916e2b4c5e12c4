// What every panel draws with: colours, fonts, scale, and the place for large tile maps.
#pragma once
#include <imgui.h>

#include <string>
#include <vector>

#include "viz/render/palette.h"
#include "viz/render/tile_textures.h"

namespace flashscope::viz {

/// A rectangle in pixels of the frame.
struct Rect {
  float x = 0, y = 0, w = 0, h = 0;
  float right() const { return x + w; }
  float bottom() const { return y + h; }
  Rect inset(float by) const { return {x + by, y + by, w - 2 * by, h - 2 * by}; }
  bool empty() const { return !(w >= 1 && h >= 1); }
};

struct Fonts {
  ImFont* body = nullptr;
  ImFont* small = nullptr;
  ImFont* bold = nullptr;
  ImFont* title = nullptr;
  ImFont* mono = nullptr;  // source code
};

struct Ui {
  const Palette* colors = nullptr;
  Fonts fonts;
  float scale = 1;  // pixels per design unit: a 1280 × 720 window has scale 1
  TileTextures* textures = nullptr;
  std::vector<std::string>* misfits = nullptr;  // collects what had no room: texts that were cut, boxes that ran over

  float px(float units) const { return units * scale; }
};

/// Builds the fonts into ImGui's atlas: the first known place that has them, else ImGui's own. Call again, on a cleared
/// atlas, when the scale changes.
Fonts load_fonts(float scale);
/// Path of a font that load_fonts() passes over because it was cut off or is none; "" where all are whole.
std::string spoiled_font();
/// Colours and sizes of ImGui's own widgets.
void apply_style(const Ui& ui);

enum class Align { left, center, right };
/// One line, clipped to `width` with an ellipsis; returns the width drawn.
float draw_text(const Ui& ui, ImDrawList* list, ImFont* font, float x, float y, float width, Color color,
                const std::string& text, Align align = Align::left);
float text_width(ImFont* font, const std::string& text);
void fill(ImDrawList* list, const Rect& rect, Color color, float rounding = 0);
void outline(ImDrawList* list, const Rect& rect, Color color, float rounding = 0, float thickness = 1);
/// A frame of dashes: where something is not.
void dashed(ImDrawList* list, const Rect& rect, Color color, float dash);
/// Diagonal lines: what the mask leaves out.
void hatch(ImDrawList* list, const Rect& rect, Color color, float spacing);

/// A window without decoration that fills `rect`; its draw list is for the panel. Always pair with end_panel().
ImDrawList* begin_panel(const Ui& ui, const char* name, const Rect& rect, bool inputs = true);
/// The same with a vertical scroll bar where the contents are taller; begin at ImGui's cursor.
ImDrawList* begin_scrolling_panel(const Ui& ui, const char* name, const Rect& rect);
void end_panel();
/// Dims a panel that was drawn in this frame, and says why: its numbers are still those of other settings.
void veil_panel(const Ui& ui, const char* name, const Rect& rect, const std::string& why);
/// Over a panel without inputs: true where the mouse is on something above it, as a list that is open, or help.
bool is_covered();

}  // namespace flashscope::viz
