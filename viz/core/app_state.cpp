#include "viz/core/app_state.h"

namespace flashscope::viz {

AppState apply(Command command, AppState state, const Results& results) {
  Playback& clock = state.playback;
  switch (command) {
    case Command::play_pause: clock = toggle(clock, results.duration); break;
    case Command::step_forward: clock = step_forward(clock, results.boundaries); break;
    case Command::step_back: clock = step_back(clock, results.boundaries); break;
    case Command::next_stall: clock = step_forward(clock, results.stalls); break;
    case Command::previous_stall: clock = step_back(clock, results.stalls); break;
    case Command::slower: clock = change_speed(clock, -1); break;
    case Command::faster: clock = change_speed(clock, 1); break;
    case Command::to_start: clock = scrub(clock, 0, results.duration); break;
    case Command::to_end: clock = scrub(clock, results.duration, results.duration); break;
    case Command::toggle_help: state.show_help = !state.show_help; break;
    case Command::toggle_theme: state.theme = state.theme == Theme::dark ? Theme::light : Theme::dark; break;
  }
  return state;
}

}  // namespace flashscope::viz
