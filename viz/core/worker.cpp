#include "viz/core/worker.h"

#include <algorithm>
#include <utility>
#include <vector>

#ifdef __EMSCRIPTEN__
#include <emscripten/fiber.h>
#endif

namespace flashscope::viz {

#ifndef __EMSCRIPTEN__

Worker::Worker(std::function<void()> loop) : m_thread(std::move(loop)) {}
Worker::~Worker() = default;
void Worker::join() { m_thread.join(); }
void Worker::pause() {}
int Worker::at_once() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }
bool Worker::lend(std::chrono::milliseconds) { return false; }

#else

// Emscripten swaps fibers by unwinding the calls of one into a buffer of its own and rewinding those of the other.
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kStackBytes = 1 << 20;    // variables: parsers of JSON and lessons go deep
constexpr std::size_t kCallsBytes = 256 << 10;  // unwound calls

/// The fiber of everybody else.
struct MainFiber {
  emscripten_fiber_t fiber;
  alignas(16) char calls[kCallsBytes];
  MainFiber() { emscripten_fiber_init_from_current_context(&fiber, calls, sizeof calls); }
};
emscripten_fiber_t* main_fiber() {
  static MainFiber main;
  return &main.fiber;
}

}  // namespace

struct Worker::Fiber {
  emscripten_fiber_t fiber;
  std::function<void()> loop;
  std::vector<char> stack = std::vector<char>(kStackBytes + 16), calls = std::vector<char>(kCallsBytes + 16);
  bool idle = false;  // it stepped aside for want of work, not of time
  bool ended = false;

  static std::vector<Fiber*> all;
  static Fiber* running;  // nullptr: the frame loop
  static Clock::time_point until;

  static void begin(void* self) {
    auto* fiber = static_cast<Fiber*>(self);
    fiber->loop();
    fiber->ended = true;
    for (;;) step_aside(true);  // a fiber cannot return
  }
  static void step_aside(bool idle) {
    Fiber* self = running;
    self->idle = idle;
    emscripten_fiber_swap(&self->fiber, main_fiber());
  }
  void turn(Clock::time_point end) {
    until = end;
    running = this;
    emscripten_fiber_swap(main_fiber(), &fiber);
    running = nullptr;
  }
};
std::vector<Worker::Fiber*> Worker::Fiber::all;
Worker::Fiber* Worker::Fiber::running = nullptr;
Clock::time_point Worker::Fiber::until;

Worker::Worker(std::function<void()> loop) : m_fiber(std::make_unique<Fiber>()) {
  const auto aligned = [](std::vector<char>& bytes) {
    return bytes.data() + (16 - reinterpret_cast<std::uintptr_t>(bytes.data()) % 16) % 16;
  };
  m_fiber->loop = std::move(loop);
  emscripten_fiber_init(&m_fiber->fiber, Fiber::begin, m_fiber.get(), aligned(m_fiber->stack), kStackBytes,
                        aligned(m_fiber->calls), kCallsBytes);
  Fiber::all.push_back(m_fiber.get());
}

Worker::~Worker() { Fiber::all.erase(std::remove(Fiber::all.begin(), Fiber::all.end(), m_fiber.get()), Fiber::all.end()); }

void Worker::join() {
  while (!m_fiber->ended) m_fiber->turn(Clock::now() + std::chrono::milliseconds(50));
}

void Worker::pause() {
  if (Fiber::running && Clock::now() >= Fiber::until) Fiber::step_aside(false);
}

int Worker::at_once() { return 1; }

bool Worker::lend(std::chrono::milliseconds time) {
  const auto end = Clock::now() + time;
  bool more = true;
  while (more && Clock::now() < end) {
    more = false;
    for (std::size_t n = 0; n < Fiber::all.size(); ++n) {
      Fiber::all[n]->turn(end);
      more = more || !Fiber::all[n]->idle;
    }
  }
  return more;
}

void Worker::let_others_run() {
  if (Fiber::running)
    Fiber::step_aside(true);
  else
    lend(std::chrono::milliseconds(50));
}

#endif

}  // namespace flashscope::viz
