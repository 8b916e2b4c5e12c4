// What a step of a lesson does to the window: its settings, its scores and its clock become those of the step's show.
#pragma once
#include <string>

#include "viz/core/lesson_state.h"
#include "viz/core/playback.h"
#include "viz/core/session.h"
#include "viz/core/softmax_steps.h"

namespace flashscope::viz {

struct FollowedShow {
  const LessonShow* show = nullptr;  // of the step, or of the last step before it that has one
  bool taken = false;                // just now, so that the window's look is to be the show's
  bool reached = false;              // the clock has just been set
  std::string fault;                 // why it cannot be shown
};

/// When the step of `learn` wants another picture than the last one, the settings (or the scores) become the show's, and
/// once `results` are those, the clock stands where the show says. `open`: nullptr while the lesson is not open yet.
FollowedShow follow_lesson(LearnState& learn, const OpenLesson* open, Settings& settings, Playback& playback,
                           SoftmaxChoice& softmax, const Results& results);

}  // namespace flashscope::viz
