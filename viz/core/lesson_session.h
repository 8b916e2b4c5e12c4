// Lessons beside the frame loop: a worker reads them, then opens the lesson that is wanted, which means predicting its runs.
#pragma once
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "viz/core/lesson_show.h"
#include "viz/core/lesson_state.h"
#include "viz/core/playback.h"
#include "viz/core/session.h"
#include "viz/core/worker.h"

namespace flashscope::viz {

/// What the Learn view knows. A value; an open lesson never changes.
struct LessonBook {
  std::shared_ptr<const LessonLibrary> library;
  std::shared_ptr<const LessonList> list;  // nullptr until it is read
  std::shared_ptr<const OpenLesson> open;  // the one that state.learn.lesson names, once its runs are predicted
  double progress = 1;                     // of opening it

  const Lesson* find(const std::string& id) const;
};

class LessonSession {
 public:
  LessonSession(LessonLibrary library, LessonEngine engine, std::function<void()> wake = {});
  ~LessonSession();
  LessonSession(const LessonSession&) = delete;
  LessonSession& operator=(const LessonSession&) = delete;

  /// Opens the lesson with this id; "" and unknown ids open none.
  void request(const std::string& id);
  const LessonBook& poll();
  /// Blocks until nothing is under way.
  const LessonBook& wait();

 private:
  void work();

  const std::shared_ptr<const LessonLibrary> m_library;
  const LessonEngine m_engine;
  const std::function<void()> m_wake;

  std::mutex m_mutex;  // guards what follows
  std::condition_variable m_changed;
  std::string m_wanted;
  std::uint64_t m_generation = 1, m_finished = 0;
  bool m_stop = false;
  std::shared_ptr<const LessonList> m_list;  // nullptr until it is read
  std::shared_ptr<const OpenLesson> m_open;
  double m_progress = 1;

  LessonBook m_polled;  // of the frame loop alone
  Worker m_worker;  // last: it begins at once
};

/// The state after the lesson had its say: when its step wants another picture than the last one, the settings (or the
/// scores) are the show's, and once `results` are those, the clock stands where the show says.
struct FollowedShow {
  const LessonShow* show = nullptr;  // of the step, or of the last step before it that has one
  bool taken = false;                // just now, so that the window's look is to be the show's
  bool reached = false;              // the clock has just been set
  std::string fault;                 // why it cannot be shown
};
FollowedShow follow_lesson(LearnState& learn, const LessonBook& book, Settings& settings, Playback& playback,
                           SoftmaxChoice& softmax, const Results& results);

}  // namespace flashscope::viz
