#include "viz/core/commands.h"

#include <sstream>

#include "viz/core/views.h"

namespace flashscope::viz {

const std::vector<CommandInfo>& commands() {
  static const std::vector<CommandInfo> list = [] {
    std::vector<CommandInfo> all = {
        {Command::play_pause, "Clock", "Space", "play or pause"},
        {Command::step_forward, "Clock", "→", "step to the next event of SM 0"},
        {Command::step_back, "Clock", "←", "step back"},
        {Command::next_tile, "Clock", ".", "next tile"},
        {Command::previous_tile, "Clock", ",", "previous tile"},
        {Command::next_stall, "Clock", "N", "next stall of SM 0"},
        {Command::previous_stall, "Clock", "B", "previous stall of SM 0"},
        {Command::next_kernel, "Clock", "PgDn", "next kernel; in Learn: next step"},
        {Command::previous_kernel, "Clock", "PgUp", "previous kernel; in Learn: step before"},
        {Command::faster, "Clock", "↑", "faster"},
        {Command::slower, "Clock", "↓", "slower"},
        {Command::to_start, "Clock", "Home", "to the start"},
        {Command::to_end, "Clock", "End", "to the end"},
        {Command::stage_closer, "View", "Z", "stage: closer, down to one SM"},
        {Command::stage_farther, "View", "Shift+Z", "stage: farther, up to the whole GPU"},
        {Command::zoom_in, "View", "+ =", "timeline: zoom in (or the wheel)"},
        {Command::zoom_out, "View", "-", "timeline: zoom out"},
        {Command::zoom_reset, "View", "0", "timeline: the whole run"},
        {Command::toggle_tall_timeline, "View", "L", "timeline: tall, with the units of SM 0"},
        {Command::swap_side, "View", "S", "inspect the other algorithm"},
    };
    static constexpr const char* digits[] = {"1", "2", "3", "4", "5", "6", "7", "8", "9"};
    static constexpr const char* with_ctrl[] = {"Ctrl+1", "Ctrl+2", "Ctrl+3", "Ctrl+4"};
    for (std::size_t n = 0; n < inspectors().size() && n < 9; ++n)
      all.push_back({{Command::show_inspector, static_cast<int>(n)}, "View", digits[n], inspectors()[n].title});
    for (std::size_t n = 0; n < views().size() && n < 4; ++n)
      all.push_back({{Command::show_view, static_cast<int>(n)}, "View", with_ctrl[n], views()[n].title});
    const CommandInfo rest[] = {
        {Command::toggle_theme, "Looks", "T", "light or dark"},
        {Command::toggle_safe_colors, "Looks", "C", "colour-blind palette"},
        {Command::toggle_projector, "Looks", "P", "projector: large type, fewer things"},
        {Command::larger, "Looks", "Ctrl++ Ctrl+=", "everything larger"},
        {Command::smaller, "Looks", "Ctrl+-", "everything smaller"},
        {Command::toggle_help, "Looks", "F1", "this help (Esc closes it)"},
        {Command::undo, "State", "Ctrl+Z", "undo a change of a parameter"},
        {Command::redo, "State", "Ctrl+Shift+Z Ctrl+Y", "redo"},
        {Command::copy_state, "State", "Ctrl+C", "copy the whole state as a line of text"},
        {Command::paste_state, "State", "Ctrl+V", "go to the state on the clipboard"},
        {Command::save_picture, "State", "F2", "save a picture (PNG)"},
        {Command::save_frames, "State", "F7", "save the run as 200 pictures"},
        {Command::export_csv, "State", "F3", "save what the inspector shows (CSV)"},
        {Command::export_json, "State", "F4", "save state and numbers (JSON)"},
        {Command::export_trace, "State", "F6", "save the timeline (Perfetto)"},
        {Command::open_files, "State", "Ctrl+O", "open your own lesson or machine"},
        {Command::quit, "State", "Ctrl+Q", "quit"},
    };
    all.insert(all.end(), std::begin(rest), std::end(rest));
    return all;
  }();
  return list;
}

bool is_offered(Command command) {
#ifdef __EMSCRIPTEN__
  return command != Command::save_frames && command != Command::quit;
#else
  (void)command;
  return true;
#endif
}

std::optional<Action> action_of_key(std::string_view key) {
  for (const CommandInfo& info : commands()) {
    std::istringstream keys(info.keys);
    for (std::string one; keys >> one;)
      if (key == one) return info.action;
  }
  return std::nullopt;
}

std::string tip_of(const Action& action) {
  for (const CommandInfo& info : commands())
    if (info.action == action) {
      const std::string keys = info.keys;
      return std::string(info.what) + "  (" + keys.substr(0, keys.find(' ')) + ")";
    }
  return "";
}

}  // namespace flashscope::viz
