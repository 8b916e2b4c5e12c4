#include "viz/core/app_state.h"

#include <algorithm>

namespace flashscope::viz {
namespace {

constexpr double kClosestTimeline = 1e-5;  // share of the run

double share_now(const AppState& state, const Results& results) {
  return results.duration > 0 ? static_cast<double>(state.playback.t) / static_cast<double>(results.duration) : 0.5;
}

}  // namespace

const std::vector<Entry<Theme>>& themes() {
  static const std::vector<Entry<Theme>> list = {
      {Theme::light, "light", "Light", ""},
      {Theme::dark, "dark", "Dark", ""},
      {Theme::light_safe, "light-safe", "Light, colour-blind", ""},
      {Theme::dark_safe, "dark-safe", "Dark, colour-blind", ""},
  };
  return list;
}

TimeWindow zoomed(TimeWindow window, double factor, double around) {
  const double width = std::clamp((window.end - window.begin) * factor, kClosestTimeline, 1.0);
  const double place = (around - window.begin) / (window.end - window.begin);  // of `around` in the window
  double begin = around - std::clamp(place, 0.0, 1.0) * width;
  begin = std::clamp(begin, 0.0, 1.0 - width);
  return {begin, begin + width};
}

TimeWindow panned(TimeWindow window, double by) {
  const double width = window.end - window.begin;
  const double begin = std::clamp(window.begin + by, 0.0, 1.0 - width);
  return {begin, begin + width};
}

int sms_at_level(int level) { return level <= 0 ? 1 : 2; }

AppState clamp(AppState s) {
  s.settings = clamp(s.settings);
  s.playback.t = std::max<Picoseconds>(0, s.playback.t);
  s.playback.speed = std::clamp(s.playback.speed, kSlowest, kFastest);
  s.side = std::clamp(s.side, 0, 1);
  s.stage_level = std::clamp(s.stage_level, 0, kStageLevels - 1);
  if (!(s.timeline.begin >= 0 && s.timeline.end <= 1 && s.timeline.begin < s.timeline.end)) s.timeline = {};
  s.timeline = zoomed(s.timeline, 1, s.timeline.begin);
  s.softmax = clamp(s.softmax);
  s.validate_quantity = std::clamp(s.validate_quantity, 0, static_cast<int>(kNumQuantities) - 1);
  s.validate_set = std::clamp(s.validate_set, 0, static_cast<int>(row_sets().size()) - 1);
  s.learn.step = std::max(0, s.learn.step);  // its end is the lesson's: the Learn view knows it
  s.looks.percent = clamp_to(kPercentRange, s.looks.percent);
  return s;
}

void request_for(Session& session, const AppState& state) {
  session.request(state.settings);
  if (state.view == View::learn ? state.learn.sweeping
                                : state.view == View::explore && state.inspector == Inspector::sweep)
    session.request_sweep({state.settings, state.sweep.over});
  if (state.view == View::validate) session.request_validation({state.settings.gpu}, state.validate_set);
}

AppState apply(const Action& action, AppState state, const Results& results) {
  Playback& clock = state.playback;
  Looks& looks = state.looks;
  switch (action.command) {
    case Command::play_pause: clock = toggle(clock, results.duration); break;
    case Command::step_forward: clock = step_forward(clock, results.boundaries); break;
    case Command::step_back: clock = step_back(clock, results.boundaries); break;
    case Command::next_tile: clock = step_forward(clock, results.tiles); break;
    case Command::previous_tile: clock = step_back(clock, results.tiles); break;
    case Command::next_stall: clock = step_forward(clock, results.stalls); break;
    case Command::previous_stall: clock = step_back(clock, results.stalls); break;
    // A presenter's clicker sends PgDn and PgUp: in Learn they turn pages.
    case Command::next_kernel:
      if (state.view == View::learn)
        ++state.learn.step;
      else
        clock = step_forward(clock, results.kernel_begins);
      break;
    case Command::previous_kernel:
      if (state.view == View::learn)
        state.learn.step = std::max(0, state.learn.step - 1);
      else
        clock = step_back(clock, results.kernel_begins);
      break;
    case Command::slower: clock = change_speed(clock, -1); break;
    case Command::faster: clock = change_speed(clock, 1); break;
    case Command::to_start: clock = scrub(clock, 0, results.duration); break;
    case Command::to_end: clock = scrub(clock, results.duration, results.duration); break;
    case Command::show_view:
      if (action.argument >= 0 && action.argument < static_cast<int>(views().size()))
        state.view = views()[static_cast<std::size_t>(action.argument)].which;
      break;
    case Command::show_inspector:
      if (action.argument >= 0 && action.argument < static_cast<int>(inspectors().size()))
        state.inspector = inspectors()[static_cast<std::size_t>(action.argument)].which;
      break;
    case Command::swap_side: state.side = 1 - state.side; break;
    case Command::zoom_in: state.timeline = zoomed(state.timeline, 0.5, share_now(state, results)); break;
    case Command::zoom_out: state.timeline = zoomed(state.timeline, 2, share_now(state, results)); break;
    case Command::zoom_reset: state.timeline = {}; break;
    case Command::toggle_tall_timeline: state.tall_timeline = !state.tall_timeline; break;
    case Command::stage_closer: state.stage_level = std::max(0, state.stage_level - 1); break;
    case Command::stage_farther: state.stage_level = std::min(kStageLevels - 1, state.stage_level + 1); break;
    case Command::toggle_theme: looks.theme = theme_of(!is_dark(looks.theme), is_safe(looks.theme)); break;
    case Command::toggle_safe_colors: looks.theme = theme_of(is_dark(looks.theme), !is_safe(looks.theme)); break;
    case Command::toggle_projector: looks.projector = !looks.projector; break;
    case Command::larger: looks.percent = clamp_to(kPercentRange, looks.percent + 10); break;
    case Command::smaller: looks.percent = clamp_to(kPercentRange, looks.percent - 10); break;
    case Command::toggle_help: state.show_help = !state.show_help; break;
    case Command::undo:
    case Command::redo:
    case Command::copy_state:
    case Command::paste_state:
    case Command::save_picture:
    case Command::save_frames:
    case Command::export_csv:
    case Command::export_json:
    case Command::export_trace:
    case Command::open_files:
    case Command::quit: break;
  }
  return state;
}

}  // namespace flashscope::viz
