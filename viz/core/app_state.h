// The state of the window: one copyable value. Everything on screen is a function of it and of the results it asks for.
#pragma once
#include <string>
#include <vector>

#include "viz/core/commands.h"
#include "viz/core/lesson_state.h"
#include "viz/core/playback.h"
#include "viz/core/session.h"
#include "viz/core/settings.h"
#include "viz/core/softmax_steps.h"
#include "viz/core/sweep.h"
#include "viz/core/validation.h"
#include "viz/core/views.h"

namespace flashscope::viz {

/// The *_safe palettes keep more distance for every kind of colour blindness, at the price of duller colours.
enum class Theme : std::uint8_t { light, dark, light_safe, dark_safe };
inline bool is_dark(Theme theme) { return theme == Theme::dark || theme == Theme::dark_safe; }
inline bool is_safe(Theme theme) { return theme == Theme::light_safe || theme == Theme::dark_safe; }
inline Theme theme_of(bool dark, bool safe) {
  return safe ? (dark ? Theme::dark_safe : Theme::light_safe) : (dark ? Theme::dark : Theme::light);
}
const std::vector<Entry<Theme>>& themes();

/// How things look, whatever they are. Kept between starts.
struct Looks {
  Theme theme = Theme::light;
  int percent = 100;       // size of everything, on top of what the window's size gives
  bool projector = false;  // large type, fewer things
  bool operator==(const Looks&) const = default;
};
inline constexpr IntRange kPercentRange = {50, 300};

/// Part of the longer run that the timeline shows, as shares 0 … 1 of it.
struct TimeWindow {
  double begin = 0, end = 1;
  bool operator==(const TimeWindow&) const = default;
};
/// `factor` < 1 looks closer; the share `around` of the run keeps its place. Never beyond the run.
TimeWindow zoomed(TimeWindow window, double factor, double around);
TimeWindow panned(TimeWindow window, double by);

/// How close a stage is: one SM with all its CTAs, two SMs, or the whole GPU with every SM as a cell.
inline constexpr int kStageLevels = 3;
inline constexpr int kWholeGpu = 2;
int sms_at_level(int level);

struct AppState {
  Settings settings;
  Playback playback;
  View view = View::explore;
  Inspector inspector = Inspector::numbers;
  int side = 1;         // of two: whom a wide inspector looks at
  int stage_level = 1;  // of kStageLevels
  TimeWindow timeline;
  bool tall_timeline = false;  // the units of SM 0 as well, in half of the window
  SweepChoice sweep;
  SoftmaxChoice softmax;
  int validate_quantity = 0;
  int validate_set = 0;  // of row_sets()
  LearnState learn;
  Looks looks;
  bool show_help = false;

  bool operator==(const AppState&) const = default;
};

/// Every number inside its range.
AppState clamp(AppState state);

/// Asks the session for what the state shows.
void request_for(Session& session, const AppState& state);

/// The state after a key or a button. Commands of the window's own (undo, copy, save, quit) change nothing here.
AppState apply(const Action& action, AppState state, const Results& results);

}  // namespace flashscope::viz
