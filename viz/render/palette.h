// One meaning, one colour: the only place where colours are written down. Tiles, words, legends and timelines take them
// from here.
//
// Within each family (tensors; reasons) lightness rises step by step, so that a photocopy keeps them apart, and hues
// stay apart for protanopes and deuteranopes; tests/viz/window_palette_test.cpp holds the numbers. A memory level has
// the colour of the reason that names it.
#pragma once
#include <array>
#include <cstdint>

#include "sim/schedule/op.h"
#include "sim/trace/trace.h"
#include "viz/core/app_state.h"
#include "viz/core/figure.h"

namespace flashscope::viz {

/// 0xAABBGGRR, as ImGui packs it.
using Color = std::uint32_t;

constexpr Color rgb(std::uint32_t hex) {
  return 0xFF000000u | (hex & 0xFF) << 16 | (hex & 0xFF00) | (hex >> 16 & 0xFF);
}
constexpr Color with_alpha(Color color, double alpha) {
  return (color & 0x00FFFFFFu) | static_cast<Color>(alpha * 255 + 0.5) << 24;
}
/// `share` of a over 1 - share of b.
Color mixed(Color a, Color b, double share);
/// CIE lightness L*, 0 … 100: what remains in greyscale.
double lightness(Color color);

struct Palette {
  Color window, panel, box;          // behind everything, of panels, of boxes on the stage
  Color text, text_dim, line, grip;  // line: frames and rules; grip: controls
  Color accent;                      // where the clock stands, what is selected
  Color good, warning;
  Color left, right;  // the two algorithms where both stand in one plot
  std::array<Color, kNumTensors> tensors;
  std::array<Color, kNumReasons> reasons;

  Color of(Tensor tensor) const { return tensors[static_cast<std::size_t>(tensor)]; }
  Color of(Role role) const {
    return role == Role::left ? left : role == Role::right ? right : role == Role::limit ? text_dim : line;
  }
  Color of(Reason reason) const { return reasons[static_cast<std::size_t>(reason)]; }
  /// Black or white, whichever reads better on `background`.
  Color ink_on(Color background) const { return lightness(background) > 58 ? rgb(0x101318) : rgb(0xFFFFFF); }
};

const Palette& palette(Theme theme);

}  // namespace flashscope::viz
