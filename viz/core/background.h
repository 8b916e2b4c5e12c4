// Work beside the frame loop, in slices: a sweep, a validation. A newer request drops the older one between two slices.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "viz/core/worker.h"

namespace flashscope::viz {

/// One piece of work. `Result` is a copyable value that is worth showing after every slice.
template <class Result>
class SlicedJob {
 public:
  virtual ~SlicedJob() = default;
  /// Does the next slice; false when there is none left. Long slices ask `wanted` now and then and leave when it says
  /// no.
  virtual bool step(const std::function<bool()>& wanted) = 0;
  virtual Result result() const = 0;
  virtual double progress() const = 0;
};

template <class Request, class Result>
class Background {
 public:
  using Make = std::function<std::unique_ptr<SlicedJob<Result>>(const Request&)>;
  /// `make` is called where the slices run and must not throw; `wake` whenever there is something new to poll.
  Background(Make make, std::function<void()> wake)
      : m_make(std::move(make)), m_wake(std::move(wake)), m_worker([this] { work(); }) {}
  ~Background() {
    {
      const std::lock_guard lock(m_mutex);
      m_stop = true;
    }
    m_changed.notify_all();
    m_worker.join();
  }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  /// Starts over when the request differs from the one under way.
  void request(const Request& request) {
    {
      const std::lock_guard lock(m_mutex);
      if (m_request && *m_request == request) return;
      m_request = request;
      m_result = std::make_shared<const Result>();
      m_progress = 0;
      m_pending = true;
      ++m_generation;
    }
    m_changed.notify_all();
  }
  /// Stops; what is known stays, and the same request is not begun again.
  void cancel() {
    {
      const std::lock_guard lock(m_mutex);
      ++m_generation;
      m_pending = false;
      m_progress = 1;
    }
    m_changed.notify_all();
  }
  /// Goes on with what was stopped; the job is made anew and knows itself what it has done.
  void resume() {
    {
      const std::lock_guard lock(m_mutex);
      if (m_pending || !m_request) return;
      m_pending = true;
      m_progress = 0;
      ++m_generation;
    }
    m_changed.notify_all();
  }
  /// The latest result; never null. `progress`: 1 when nothing is under way.
  std::shared_ptr<const Result> poll(double& progress) {
    const std::lock_guard lock(m_mutex);
    progress = m_progress;
    return m_result;
  }
  bool is_working() {
    const std::lock_guard lock(m_mutex);
    return m_pending;
  }
  /// Blocks until nothing is under way.
  void wait() {
    std::unique_lock lock(m_mutex);
    Worker::wait(m_changed, lock, [this] { return !m_pending; });
  }

 private:
  bool is_current(std::uint64_t generation) {
    const std::lock_guard lock(m_mutex);
    return !m_stop && m_generation == generation;
  }

  /// One slice of the current request; false when there is nothing to do.
  bool slice() {
    std::optional<Request> fresh;
    std::uint64_t generation = 0;
    {
      const std::lock_guard lock(m_mutex);
      if (!m_pending || m_stop) return false;
      generation = m_generation;
      if (m_job_generation != generation) fresh = m_request;
    }
    if (fresh) {
      m_job = m_make(*fresh);
      m_job_generation = generation;
    }
    const bool more = m_job->step([&] {
      Worker::pause();
      return is_current(generation);
    });
    auto result = std::make_shared<const Result>(m_job->result());
    {
      const std::lock_guard lock(m_mutex);
      if (m_generation != generation) return true;  // dropped: look again
      m_result = std::move(result);
      m_progress = more ? m_job->progress() : 1;
      m_pending = more;
    }
    m_changed.notify_all();
    if (m_wake) m_wake();
    return more;
  }

  void work() {
    while (true) {
      {
        std::unique_lock lock(m_mutex);
        Worker::wait(m_changed, lock, [this] { return m_stop || m_pending; });
        if (m_stop) return;
      }
      while (slice()) Worker::pause();
    }
  }

  const Make m_make;
  const std::function<void()> m_wake;
  std::mutex m_mutex;  // guards what follows, down to m_result
  std::condition_variable m_changed;
  std::optional<Request> m_request;
  std::uint64_t m_generation = 0;
  bool m_pending = false, m_stop = false;
  double m_progress = 1;
  std::shared_ptr<const Result> m_result = std::make_shared<const Result>();

  std::unique_ptr<SlicedJob<Result>> m_job;  // of the worker
  std::uint64_t m_job_generation = 0;
  Worker m_worker;  // last: it begins at once
};

}  // namespace flashscope::viz
