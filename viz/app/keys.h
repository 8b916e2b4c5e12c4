// Keys to actions. They come from a key callback of our own, not from ImGui's once-a-frame state, so that a fast tap
// during a slow frame is not lost. Which key does what: viz/core/commands.cpp.
#pragma once
#include <optional>
#include <string>

#include "viz/core/commands.h"

namespace flashscope::viz {

/// The name of a key with its modifiers, as commands() spells it: "→", "Shift+Z", "Ctrl++"; "" for keys without a name
/// and with Alt or Super. `layout_name`: what glfwGetKeyName says, or nullptr: letters and signs are those of the
/// keyboard's layout.
std::string name_of_key(int key, int mods, const char* layout_name);

/// Whether a key of this name types a character other than a blank: "Z", "Shift+Z", "+".
bool is_character(const std::string& name);

/// The action of a key; nothing for keys without one.
std::optional<Action> action_of_glfw_key(int key, int mods, const char* layout_name = nullptr);

}  // namespace flashscope::viz
