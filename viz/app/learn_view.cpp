#include "viz/app/learn_view.h"

#include <algorithm>

#include "sim/error.h"
#include "viz/core/lesson_show.h"

namespace flashscope::viz {

LearnState begin_learning(LearnState state, const LessonLibrary& library, const std::string& name, int step) {
  if (name.empty()) {
    if (step > 0) state.step = step - 1;
    return state;
  }
  const Lesson lesson = library.lesson(name);
  state = go_to_lesson(std::move(state), &lesson);
  if (step > 0) state = go_to_step(std::move(state), lesson, step - 1);
  return state;
}

void look_as_shown(AppState& state, const LessonBook& book, const FollowedShow& followed, const Results& results) {
  if (!followed.show || !followed.fault.empty()) return;
  const LessonShow& show = *followed.show;
  if (followed.taken) {
    state.stage_level = static_cast<int>(show.view);
    state.tall_timeline = show.tall_timeline;
    state.timeline = {};
    state.side = 1;  // where there is room for one stage: that of the run which the show names last
    try {
      if (show.panel == LessonShow::Panel::sweep) state.sweep = sweep_of(*book.open, show);
    } catch (const Error&) {
      // `lesson check` tells of a name that is not known; here the sweep stays the one before.
    }
  }
  if (followed.reached && show.zoom > 1 && results.duration > 0) {
    const double at = static_cast<double>(state.playback.t) / static_cast<double>(results.duration);
    const double length = 1.0 / show.zoom, begin = std::clamp(at - length / 2, 0.0, 1 - length);
    state.timeline = {begin, begin + length};
  }
}

AppState settled(AppState state, Session& session, const LessonBook& book) {
  // The first turn chooses the settings, the second finds their stage and sets the clock.
  for (int turn = 0; turn < 2; ++turn) {
    request_for(session, state);
    const Results& results = session.wait();
    if (state.view == View::learn)
      look_as_shown(state, book,
                    follow_lesson(state.learn, book.open.get(), state.settings, state.playback, state.softmax, results), results);
  }
  request_for(session, state);  // the sweep, where the second turn chose one
  session.wait();
  return state;
}

}  // namespace flashscope::viz
