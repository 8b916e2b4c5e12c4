// Pictures of large tile maps, one texel a tile. Above 64 × 64 tiles a textured quad is an order of magnitude cheaper
// than rectangles.
#pragma once
#include <imgui.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace flashscope::viz {

/// Where pixels become something that ImGui can draw. A test without OpenGL has none.
class TileTextures {
 public:
  virtual ~TileTextures() = default;
  /// `pixels`: width × height, 0xAABBGGRR, row-major. The texture of `name` is kept and overwritten on the next call.
  virtual ImTextureID upload(const std::string& name, int width, int height,
                             const std::vector<std::uint32_t>& pixels) = 0;
};

/// Nearest-neighbour OpenGL textures of the current context. Destroy it while that context is current.
std::unique_ptr<TileTextures> make_gl_textures();

}  // namespace flashscope::viz
