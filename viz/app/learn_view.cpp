#include "viz/app/learn_view.h"

#include "viz/core/lesson_follow.h"

namespace flashscope::viz {

LearnState begin_learning(LearnState state, const LessonLibrary& library, const std::string& name) {
  if (name.empty()) return state;
  const Lesson lesson = library.lesson(name);
  const int step = state.step;
  state = go_to_lesson(std::move(state), &lesson);
  if (step > 0) state = go_to_step(std::move(state), lesson, step - 1);
  return state;
}

AppState settled(AppState state, Session& session, const LessonBook& book) {
  // The first turn chooses the settings, the second finds their stage and sets the clock.
  for (int turn = 0; turn < 2; ++turn) {
    request_for(session, state);
    const Results& results = session.wait();
    if (state.view == View::learn)
      follow_lesson(state.learn, book.open.get(), state.settings, state.playback, state.softmax, results);
  }
  return state;
}

}  // namespace flashscope::viz
