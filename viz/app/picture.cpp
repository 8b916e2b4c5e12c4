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
  const std::size_t row = static_cast<std::size_t>(width) * 3;
  picture.rgb.resize(row * static_cast<std::size_t>(height));
  glPixelStorei(GL_PACK_ALIGNMENT, 1);  // rows are not padded to four bytes
  glReadPixels(0, 0, width, height, GL_RGB, GL_UNSIGNED_BYTE, picture.rgb.data());
  // OpenGL's first row is the lowest.
  for (int y = 0; y < height / 2; ++y)
    std::swap_ranges(picture.rgb.begin() + static_cast<std::ptrdiff_t>(row) * y,
                     picture.rgb.begin() + static_cast<std::ptrdiff_t>(row) * (y + 1),
                     picture.rgb.begin() + static_cast<std::ptrdiff_t>(row) * (height - 1 - y));
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
