#include "viz/app/keys.h"

#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>

namespace flashscope::viz {

std::optional<Command> command_of_key(int key, int mods) {
  if (mods & (GLFW_MOD_CONTROL | GLFW_MOD_ALT | GLFW_MOD_SUPER)) return std::nullopt;
  switch (key) {
    case GLFW_KEY_SPACE: return Command::play_pause;
    case GLFW_KEY_RIGHT: return Command::step_forward;
    case GLFW_KEY_LEFT: return Command::step_back;
    case GLFW_KEY_N: return Command::next_stall;
    case GLFW_KEY_B: return Command::previous_stall;
    case GLFW_KEY_UP: return Command::faster;
    case GLFW_KEY_DOWN: return Command::slower;
    case GLFW_KEY_HOME: return Command::to_start;
    case GLFW_KEY_END: return Command::to_end;
    case GLFW_KEY_F1: return Command::toggle_help;
    case GLFW_KEY_T: return Command::toggle_theme;
    default: return std::nullopt;
  }
}

}  // namespace flashscope::viz
