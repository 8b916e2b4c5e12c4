// What was drawn, as an image file.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace flashscope::viz {

/// Rows from the top, three bytes a pixel, no padding.
struct Picture {
  int width = 0, height = 0;
  std::vector<std::uint8_t> rgb;
};

/// Reads the bound framebuffer of the current OpenGL context.
Picture read_framebuffer(int width, int height);

/// A PNG, written whole or not at all. Throws Error(io).
void write_png(const std::string& path, const Picture& picture);

}  // namespace flashscope::viz
