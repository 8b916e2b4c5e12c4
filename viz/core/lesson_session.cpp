#include "viz/core/lesson_session.h"

#include <utility>

#include "sim/error.h"

namespace flashscope::viz {

LessonSession::LessonSession(LessonLibrary library, LessonEngine engine, std::function<void()> wake)
    : m_library(std::move(library)),
      m_engine(std::move(engine)),
      m_wake(std::move(wake)),
      m_worker([this] { work(); }) {}

LessonSession::~LessonSession() {
  {
    const std::lock_guard lock(m_mutex);
    m_stop = true;
    ++m_generation;
  }
  m_changed.notify_all();
  m_worker.join();
}

void LessonSession::request(const std::string& id) {
  {
    const std::lock_guard lock(m_mutex);
    if (id == m_wanted) return;
    m_wanted = id;
    m_open = nullptr;
    m_progress = 0;
    ++m_generation;
  }
  m_changed.notify_all();
}

const LessonBook& LessonSession::poll() {
  const std::lock_guard lock(m_mutex);
  m_polled.list = m_list;
  m_polled.open = m_open;
  m_polled.progress = m_progress;
  return m_polled;
}

const LessonBook& LessonSession::wait() {
  {
    std::unique_lock lock(m_mutex);
    Worker::wait(m_changed, lock, [this] { return m_finished == m_generation; });
  }
  return poll();
}

void LessonSession::work() {
  const auto list = std::make_shared<const LessonList>(read_lessons(m_library, [] { Worker::pause(); }));
  std::unique_lock lock(m_mutex);
  m_list = list;
  for (;;) {
    Worker::wait(m_changed, lock, [this] { return m_stop || m_finished != m_generation; });
    if (m_stop) return;
    const std::uint64_t generation = m_generation;
    const std::string wanted = m_wanted;
    lock.unlock();
    std::shared_ptr<const OpenLesson> open;
    const auto still_wanted = [&](double share) {
      Worker::pause();
      const std::lock_guard again(m_mutex);
      if (m_generation != generation) return false;
      m_progress = share;
      return true;
    };
    if (const Lesson* lesson = list->find(wanted)) {
      try {
        open = std::make_shared<const OpenLesson>(open_lesson(*lesson, m_library, m_engine, still_wanted));
      } catch (const Error&) {
        open = nullptr;  // another lesson is wanted by now
      }
    }
    lock.lock();
    if (m_generation == generation) {
      m_open = open;
      m_progress = 1;
      m_finished = generation;
    }
    lock.unlock();
    m_changed.notify_all();
    if (m_wake) m_wake();
    lock.lock();
  }
}

}  // namespace flashscope::viz
