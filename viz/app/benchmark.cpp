#include "viz/app/benchmark.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <thread>

#include "viz/app/offscreen.h"

namespace flashscope::viz {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kWidth = 1280, kHeight = 720;

double cpu_ms() { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }
double wall_ms(Clock::time_point since) {
  return std::chrono::duration<double, std::milli>(Clock::now() - since).count();
}

template <class Body>
WindowCost cost_of(const std::string& what, int count, Body body) {
  const double cpu = cpu_ms();
  const auto begin = Clock::now();
  for (int n = 0; n < count; ++n) body(n);
  return {what, wall_ms(begin) / count, (cpu_ms() - cpu) / count, count};
}

}  // namespace

void put_large_map(const Machine& machine, AppState& state, Results& results) {
  Settings& s = state.settings;
  s.algorithms = {"flash_v2", "flash_v2"};
  s.problem.heads = s.problem.kv_heads = 1;
  s.problem.seqlen_q = s.problem.seqlen_k = 65536;
  s.problem.window_left = s.problem.window_right = 0;
  s.tile = {16, 16, 1};
  s.stage_seqlen = 65536;
  s.gpu = machine.name;
  results = {};
  results.settings = s;
  results.stage_problem = s.problem;
  for (auto& stage : results.stage) stage = trace_stage("flash_v2", s.problem, s.tile, machine, s.start);
  results.duration = results.stage[0]->duration();
}

std::vector<WindowCost> window_costs(const std::vector<Machine>& machines, const std::vector<Recording>& recordings,
                                     Clock::time_point start) {
  std::vector<WindowCost> costs;
  // 1. The first picture: the stage is still being computed, as at the start of the window.
  Session session(machines, recordings);
  AppState state;
  request_for(session, state);
  Offscreen offscreen(kWidth, kHeight, 1);
  offscreen.frame(state, session, session.poll());
  costs.push_back({"first picture, from the start of the program", wall_ms(start), cpu_ms(), 1});

  // 2. Playing the default problem, and a large map.
  Results results = session.wait();
  for (const bool large : {false, true}) {
    if (large) put_large_map(machines.front(), state, results);
    const char* what = large ? "playing a map of 4096 × 4096 score tiles" : "playing the default problem";
    constexpr int kFrames = 60;
    costs.push_back(cost_of(std::string(what) + ", a frame", kFrames, [&](int n) {
      state.playback.t = results.duration * n / kFrames;
      offscreen.frame(state, session, results);
    }));
  }

  // 3. A drag of N: a frame each step, never waiting; then until the stage shows the last value.
  state = {};
  const int sizes[] = {512, 640, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 8192, 10240, 12288, 16384};
  double worst = 0;
  const int steps = static_cast<int>(std::size(sizes));
  costs.push_back(cost_of("dragging N from 512 to 16384, a frame", steps, [&](int n) {
    const auto begin = Clock::now();
    state.settings.problem.seqlen_q = state.settings.problem.seqlen_k = sizes[n];
    request_for(session, state);
    offscreen.frame(state, session, session.poll());
    worst = std::max(worst, wall_ms(begin));
  }));
  costs.push_back({"the longest of these frames", worst, 0, 1});
  const Settings wanted = clamp(state.settings);
  costs.push_back(cost_of("from the last of them to its stage", 1, [&](int) {
    while (!(session.poll().settings == wanted)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }));
  session.cancel();
  return costs;
}

std::string table_of(const std::vector<WindowCost>& costs) {
  std::string text = "                                                        wall ms  processor ms\n";
  for (const WindowCost& cost : costs) {
    char line[160];
    // Some characters of the names take two bytes.
    int width = 52;
    for (const char c : cost.what) width += (c & 0xC0) == 0x80;
    std::snprintf(line, sizeof line, "%-*s %10.1f %13.1f\n", width, cost.what.c_str(), cost.wall_ms, cost.cpu_ms);
    text += line;
  }
  return text;
}

}  // namespace flashscope::viz
