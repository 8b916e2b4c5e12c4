// The state of the window: one copyable value. Everything on screen is a function of it and of the results it asks for.
#pragma once
#include "viz/core/playback.h"
#include "viz/core/session.h"
#include "viz/core/settings.h"

namespace flashscope::viz {

enum class Theme { light, dark };

struct AppState {
  Settings settings;
  Playback playback;
  Theme theme = Theme::light;
  bool show_help = false;

  bool operator==(const AppState&) const = default;
};

/// What a key or a button does.
enum class Command {
  play_pause,
  step_forward,
  step_back,
  next_stall,
  previous_stall,
  slower,
  faster,
  to_start,
  to_end,
  toggle_help,
  toggle_theme,
};
AppState apply(Command command, AppState state, const Results& results);

}  // namespace flashscope::viz
