// Beginning a lesson from the command line.
#pragma once
#include "viz/core/app_state.h"
#include "viz/core/lesson_follow.h"
#include "viz/core/lesson_session.h"
#include "viz/core/session.h"

namespace flashscope::viz {

/// The lesson named `name` ("": the one in the state, or the list) at a step counted from 1 (0: where the learner left,
/// or that of the state). Throws Error(usage) for an unknown name.
LearnState begin_learning(LearnState state, const LessonLibrary& library, const std::string& name, int step);

/// The stage as close and the timeline as long as the show says, once it was taken up; the learner may change both.
void look_as_shown(AppState& state, const LessonBook& book, const FollowedShow& followed, const Results& results);

/// The state with the settings and the clock of the lesson's step, for a program without a frame loop.
AppState settled(AppState state, Session& session, const LessonBook& book);

}  // namespace flashscope::viz
