// Lessons beside the frame loop: a worker reads them, then opens the lesson that is wanted, which means predicting its runs.
#pragma once
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "viz/core/lesson_runtime.h"
#include "viz/core/worker.h"

namespace flashscope::viz {

/// What the Learn view knows. A value; an open lesson never changes.
struct LessonBook {
  std::shared_ptr<const LessonList> list;  // nullptr until it is read
  std::shared_ptr<const OpenLesson> open;  // the one that state.learn.lesson names, once its runs are predicted
  double progress = 1;                     // of opening it

  const Lesson* find(const std::string& id) const { return list ? list->find(id) : nullptr; }
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

  const LessonLibrary m_library;
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

}  // namespace flashscope::viz
