// Running text in several styles, broken into lines: what lessons are drawn with.
#pragma once
#include <string>
#include <vector>

#include "viz/render/ui.h"

namespace flashscope::viz {

struct TextPiece {
  std::string text;
  ImFont* font = nullptr;
  Color color = 0;
  Color chip = 0;       // ground behind the piece; 0: none
  Color underline = 0;  // 0: none
  std::string tip;      // shown on hover
};

/// Draws at (x, y) in `width`, and returns the height used. Words of pieces without a blank between them stay together.
/// A no-break space (U+00A0) is not a place for a line's end. `leading`: from line to line, in font sizes.
float draw_rich_text(const Ui& ui, ImDrawList* list, float x, float y, float width,
                     const std::vector<TextPiece>& pieces, float leading = 1.4f);

/// A text of one style, of which '\n' ends a line. ImGui's own wrapping ends lines after the point of "98.4 %", too.
float draw_paragraph(const Ui& ui, ImDrawList* list, ImFont* font, float x, float y, float width, Color color,
                     const std::string& text, float leading = 1.2f);

}  // namespace flashscope::viz
