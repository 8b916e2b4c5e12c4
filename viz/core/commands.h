// What keys and buttons do, in one visible list: the key callback, the cheat sheet and the tips read it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace flashscope::viz {

enum class Command : std::uint8_t {
  // The clock
  play_pause,
  step_forward,
  step_back,
  next_tile,
  previous_tile,
  next_stall,
  previous_stall,
  next_kernel,
  previous_kernel,
  slower,
  faster,
  to_start,
  to_end,
  // What is seen
  show_view,       // argument: place in views()
  show_inspector,  // argument: place in inspectors()
  swap_side,
  zoom_in,
  zoom_out,
  zoom_reset,
  toggle_tall_timeline,
  stage_closer,
  stage_farther,
  // How it looks
  toggle_theme,
  toggle_safe_colors,
  toggle_projector,
  larger,
  smaller,
  toggle_help,
  // The window's own: apply() leaves the state as it is
  undo,
  redo,
  copy_state,
  paste_state,
  save_picture,
  save_frames,
  export_csv,
  export_json,
  export_trace,
  open_files,
  quit,
};

struct Action {
  Command command;
  int argument = 0;
  Action(Command c, int a = 0) : command(c), argument(a) {}
  bool operator==(const Action&) const = default;
};

struct CommandInfo {
  Action action;
  const char* group;  // heading of the cheat sheet
  const char* keys;   // separated by blanks; the first is the one that tips name. "Ctrl+Shift+Z", "→", "F1"
  const char* what;
};
const std::vector<CommandInfo>& commands();

/// False for what the program cannot do where it runs: a page saves one file at a time, and is closed by its browser.
bool is_offered(Command command);

/// The action of a key, by its name with the modifiers before it in the order Ctrl, Shift.
std::optional<Action> action_of_key(std::string_view key);
/// "play or pause  (Space)"
std::string tip_of(const Action& action);

}  // namespace flashscope::viz
