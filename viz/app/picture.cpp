#define GL_GLEXT_PROTOTYPES
#include "viz/app/picture.h"

#include <GL/gl.h>
#include <GL/glext.h>
#include <stb_image_write.h>

#include <algorithm>

#include "sim/error.h"
#include "viz/io/files.h"

namespace flashscope::viz {

Picture read_framebuffer(int width, int height) {
  Picture picture{width, height, {}};
  const auto w = static_cast<std::size_t>(width), h = static_cast<std::size_t>(height);
  std::vector<std::uint8_t> rgba(w * h * 4);  // the one format that every OpenGL, WebGL's too, reads back
  glPixelStorei(GL_PACK_ALIGNMENT, 1);
  glReadPixels(0, 0, width, height, GL_RGBA, GL_UNSIGNED_BYTE, rgba.data());
  picture.rgb.resize(w * h * 3);
  for (std::size_t y = 0; y < h; ++y) {
    const std::uint8_t* from = &rgba[(h - 1 - y) * w * 4];  // OpenGL's first row is the lowest
    std::uint8_t* to = &picture.rgb[y * w * 3];
    for (std::size_t x = 0; x < w; ++x, from += 4, to += 3) std::copy(from, from + 3, to);
  }
  return picture;
}

void write_png(const std::string& path, const Picture& picture) {
  std::string bytes;
  const auto append = [](void* into, void* data, int size) {
    static_cast<std::string*>(into)->append(static_cast<const char*>(data), static_cast<std::size_t>(size));
  };
  if (!stbi_write_png_to_func(append, &bytes, picture.width, picture.height, 3, picture.rgb.data(), picture.width * 3))
    throw Error(ErrorKind::internal, path + ": the picture could not be encoded");
  write_file_atomically(path, bytes);
}

}  // namespace flashscope::viz
