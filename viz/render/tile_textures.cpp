#define GL_GLEXT_PROTOTYPES
#include "viz/render/tile_textures.h"

#include <GL/gl.h>
#include <GL/glext.h>

namespace flashscope::viz {
namespace {

class GlTextures final : public TileTextures {
 public:
  ~GlTextures() override {
    for (const auto& [name, texture] : m_textures) glDeleteTextures(1, &texture.id);
  }

  ImTextureID upload(const std::string& name, int width, int height,
                     const std::vector<std::uint32_t>& pixels) override {
    Texture& texture = m_textures[name];
    if (texture.id == 0) {
      glGenTextures(1, &texture.id);
      glBindTexture(GL_TEXTURE_2D, texture.id);
      glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_LINEAR);
      glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, GL_NEAREST);
      glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_WRAP_S, GL_CLAMP_TO_EDGE);
      glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_WRAP_T, GL_CLAMP_TO_EDGE);
    }
    glBindTexture(GL_TEXTURE_2D, texture.id);
    glPixelStorei(GL_UNPACK_ALIGNMENT, 4);
    glPixelStorei(GL_UNPACK_ROW_LENGTH, 0);
    if (texture.width != width || texture.height != height)
      glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA8, width, height, 0, GL_RGBA, GL_UNSIGNED_BYTE, pixels.data());
    else
      glTexSubImage2D(GL_TEXTURE_2D, 0, 0, 0, width, height, GL_RGBA, GL_UNSIGNED_BYTE, pixels.data());
    texture.width = width;
    texture.height = height;
    return reinterpret_cast<ImTextureID>(static_cast<std::intptr_t>(texture.id));
  }

 private:
  struct Texture {
    GLuint id = 0;
    int width = 0, height = 0;
  };
  std::map<std::string, Texture> m_textures;
};

}  // namespace

std::unique_ptr<TileTextures> make_gl_textures() { return std::make_unique<GlTextures>(); }

}  // namespace flashscope::viz
