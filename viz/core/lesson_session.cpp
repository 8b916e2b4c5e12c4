#include "viz/core/lesson_session.h"

#include <algorithm>

#include "sim/error.h"

namespace flashscope::viz {

const Lesson* LessonBook::find(const std::string& id) const {
  if (list)
    for (const Lesson& lesson : list->lessons)
      if (lesson.id == id) return &lesson;
  return nullptr;
}

LessonSession::LessonSession(LessonLibrary library, LessonEngine engine, std::function<void()> wake)
    : m_library(std::make_shared<const LessonLibrary>(std::move(library))),
      m_engine(std::move(engine)),
      m_wake(std::move(wake)),
      m_polled{m_library, nullptr, nullptr, 1},
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
  const auto list = std::make_shared<const LessonList>(read_lessons(*m_library, [] { Worker::pause(); }));
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
    const auto lesson =
        std::find_if(list->lessons.begin(), list->lessons.end(), [&](const Lesson& l) { return l.id == wanted; });
    if (lesson != list->lessons.end()) {
      try {
        open = std::make_shared<const OpenLesson>(open_lesson(*lesson, *m_library, m_engine, still_wanted));
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

FollowedShow follow_lesson(LearnState& learn, const LessonBook& book, Settings& settings, Playback& playback,
                           SoftmaxChoice& softmax, const Results& results) {
  FollowedShow followed;
  if (!book.open || book.open->lesson.id != learn.lesson) return followed;
  if (learn.restored) learn = graded_again(std::move(learn), *book.open);
  const Lesson& lesson = book.open->lesson;
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
        softmax = softmax_of(*book.open, show);
      } else if (show.panel != LessonShow::Panel::occupancy) {  // whose runs need not share a problem
        Settings wanted = stage_settings(*book.open, show);
        wanted.stage_seqlen = settings.stage_seqlen;
        settings = clamp(wanted);
      }
      playback.playing = false;
      learn.followed = key;
      learn.seeking = show.has_stage();
      followed.taken = true;
    }
    const auto& stage = results.stage[show.runs.size() == 1 ? 0 : 1];
    if (learn.seeking && stage && results.settings == settings) {
      playback = scrub(playback, moment_of(lesson, show, *stage), results.duration);
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
