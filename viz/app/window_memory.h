// What the window remembers between starts: where it was and how things look. Kept in the user's configuration folder,
// never in the current directory.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "viz/core/app_state.h"

namespace flashscope::viz {

struct WindowPlace {
  int x = 0, y = 0, width = 1280, height = 720;
  bool operator==(const WindowPlace&) const = default;
};

struct WindowMemory {
  std::optional<WindowPlace> place;
  std::optional<Looks> looks;
  std::string layout = {};  // a layout_token(); empty: none
  bool operator==(const WindowMemory&) const = default;
};

/// $XDG_CONFIG_HOME/flashscope/window.txt, or below $HOME/.config; "" when neither is set.
std::string window_memory_path();

/// What was remembered; nothing at the first start. A file that cannot be understood is kept as *.bak and told in
/// `notice`.
WindowMemory load_window_memory(const std::string& path, std::string& notice);
/// Returns a notice when it could not be kept, else "". A place without an area is not kept.
std::string save_window_memory(const std::string& path, const WindowMemory& memory);

/// The place moved so that a good part of its title bar lies on a monitor; unchanged when it does already.
WindowPlace made_visible(WindowPlace place, const std::vector<WindowPlace>& monitors);

}  // namespace flashscope::viz
