// A loop of work beside the frame loop: a thread; in a browser, which gives threads to pages with special headers only, a
// fiber: a stack of its own for which the frame loop steps aside some milliseconds a frame.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace flashscope::viz {

class Worker {
 public:
  /// `loop` runs until it returns. It waits with wait() below, and long work in it calls pause() now and then.
  explicit Worker(std::function<void()> loop);
  /// Join first.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  /// Blocks until the loop has returned.
  void join();

  /// Inside long work, and never with a mutex held or from a catch block: a fiber whose time is over steps aside for the
  /// frame loop. Threads go on.
  static void pause();
  /// How many run at the same time: as many threads as the machine has cores; fibers one after the other.
  static int at_once();
  /// Fibers run for about `time`, each in turn. True when one of them has more to do. Threads need nobody: false.
  static bool lend(std::chrono::milliseconds time);
  /// As condition_variable::wait, on both sides.
  template <class Ready>
  static void wait(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, Ready ready) {
#ifdef __EMSCRIPTEN__
    while (!ready()) {
      lock.unlock();
      let_others_run();
      lock.lock();
    }
    (void)changed;
#else
    changed.wait(lock, ready);
#endif
  }

 private:
#ifdef __EMSCRIPTEN__
  struct Fiber;
  static void let_others_run();
  std::unique_ptr<Fiber> m_fiber;
#else
  std::thread m_thread;
#endif
};

}  // namespace flashscope::viz
