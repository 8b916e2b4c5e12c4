#include "viz/core/lesson_follow.h"

#include <algorithm>

#include "sim/error.h"
#include "viz/core/lesson_show.h"

namespace flashscope::viz {

FollowedShow follow_lesson(LearnState& learn, const OpenLesson* open, Settings& settings, Playback& playback,
                           SoftmaxChoice& softmax, const Results& results) {
  FollowedShow followed;
  if (!open || open->lesson.id != learn.lesson) return followed;
  const Lesson& lesson = open->lesson;
  std::size_t index = 0;
  for (std::size_t n = 0; n < lesson.shows.size(); ++n)
    if (static_cast<int>(lesson.shows[n].step) <= learn.step) {
      followed.show = &lesson.shows[n];
      index = n;
    }
  learn.sweeping = followed.show && followed.show->panel == LessonShow::Panel::sweep;
  if (!followed.show) return followed;
  const LessonShow& show = *followed.show;
  const std::string key = lesson.id + "/" + std::to_string(index);
  try {
    if (learn.followed != key) {
      if (show.panel == LessonShow::Panel::softmax) {
        softmax = softmax_of(*open, show);
      } else if (show.panel != LessonShow::Panel::occupancy) {  // whose runs need not share a problem
        Settings wanted = stage_settings(*open, show);
        wanted.stage_seqlen = settings.stage_seqlen;
        settings = clamp(wanted);
      }
      playback.playing = false;
      learn.followed = key;
      learn.seeking = show.has_stage();
      followed.taken = true;
    }
    const StageTraces traces(results.stage.begin(), results.stage.begin() + (show.runs.size() == 1 ? 1 : 2));
    const bool all_there = std::find(traces.begin(), traces.end(), nullptr) == traces.end();
    if (learn.seeking && all_there && results.settings == settings) {
      playback = scrub(playback, moment_of(lesson, show, traces), results.duration);
      learn.seeking = false;
      followed.reached = true;
    }
  } catch (const Error& error) {
    followed.fault = error.what();
    learn.followed = key;
    learn.seeking = false;
  }
  return followed;
}

}  // namespace flashscope::viz
