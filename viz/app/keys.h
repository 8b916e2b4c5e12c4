// Keys to commands. They come from a key callback of our own, not from ImGui's once-a-frame state, so that a fast tap
// during a slow frame is not lost.
#pragma once
#include <optional>

#include "viz/core/app_state.h"

namespace flashscope::viz {

/// `key` and `mods` as GLFW names them; nothing for keys without a command and for those held with Ctrl, Alt or Super.
std::optional<Command> command_of_key(int key, int mods);

}  // namespace flashscope::viz
