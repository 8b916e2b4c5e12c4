// The clock: stepping, scrubbing, speed; and the keys that drive it.
#include <doctest/doctest.h>

#include <set>
#include <sstream>

#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>

#include <random>

#include "support.h"
#include "viz/app/keys.h"
#include "viz/core/app_state.h"
#include "viz/core/scene.h"

using namespace flashscope;
using namespace flashscope::viz;
using namespace flashscope::viz::testing;

TEST_CASE("k steps back and k steps forward give an equal state and an equal scene") {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  const auto trace = trace_stage("flash_v2", small_problem(), {16, 16, 1}, small_machine(), Start::cold);
  Results results;
  results.stage[0] = trace;
  results.duration = trace->duration();
  results.boundaries = trace->boundaries();
  REQUIRE(results.boundaries.size() > 60);
  for (int n = 0; n < 20; ++n) {
    AppState start;
    start.playback.t = results.boundaries[20 + random() % (results.boundaries.size() - 40)];
    AppState state = start;
    const int k = 1 + static_cast<int>(random() % 20);
    for (int step = 0; step < k; ++step) state = apply(Command::step_back, state, results);
    CHECK(state.playback.t < start.playback.t);
    for (int step = 0; step < k; ++step) state = apply(Command::step_forward, state, results);
    CHECK(state == start);
    CHECK(make_scene(*trace, state.playback.t, 2) == make_scene(*trace, start.playback.t, 2));
  }
}

TEST_CASE("stepping stops at both ends") {
  const std::vector<Picoseconds> times = {0, 10, 20};
  Playback clock;
  CHECK(step_back(clock, times).t == 0);
  clock.t = 20;
  CHECK(step_forward(clock, times).t == 20);
  clock.t = 13;  // between
  CHECK(step_forward(clock, times).t == 20);
  CHECK(step_back(clock, times).t == 10);
  CHECK(step_back(clock, {}).t == 13);
}

TEST_CASE("playing reaches the end, stops there, and starts over") {
  Playback clock;
  clock = toggle(clock, 1000);
  CHECK(clock.playing);
  for (int frame = 0; frame < 10000 && clock.playing; ++frame) clock = advance(clock, 1.0 / 60, 1000);
  CHECK(clock.t == 1000);
  CHECK_FALSE(clock.playing);
  clock = toggle(clock, 1000);
  CHECK(clock.t == 0);
  CHECK(clock.playing);
}

TEST_CASE("time never goes backwards while playing, whatever the frame took") {
  Playback clock;
  clock.playing = true;
  for (double seconds : {0.0, -1.0, 1e-9, 1e9}) {
    const Playback next = advance(clock, seconds, 5000);
    CHECK(next.t >= clock.t);
    CHECK(next.t <= 5000);
  }
}

TEST_CASE("speed is a power of two within limits") {
  Playback clock;
  const double pace0 = pace(clock, 1'000'000);
  CHECK(pace(change_speed(clock, 1), 1'000'000) == doctest::Approx(2 * pace0));
  for (int n = 0; n < 50; ++n) clock = change_speed(clock, 1);
  CHECK(clock.speed == kFastest);
  for (int n = 0; n < 50; ++n) clock = change_speed(clock, -1);
  CHECK(clock.speed == kSlowest);
}

TEST_CASE("stalls are begins of waits of SM 0") {
  const auto trace = trace_stage("flash_v2", small_problem(), {16, 16, 1}, small_machine(), Start::cold);
  REQUIRE_FALSE(trace->stalls().empty());
  const SlotTrack& track = trace->tracks().front();
  for (Picoseconds t : trace->stalls()) {
    const OpSpan* span = trace->span_at(track, t);
    REQUIRE(span != nullptr);
    CHECK(span->begin == t);
    CHECK(is_wait(span->reason));
  }
}

TEST_CASE("every key of the cheat sheet is unique and does what it says") {
  std::set<std::string> seen;
  for (const CommandInfo& info : commands()) {
    std::istringstream keys(info.keys);
    for (std::string key; keys >> key;) {
      CAPTURE(key);
      CHECK(seen.insert(key).second);
      CHECK(action_of_key(key) == info.action);
    }
    CHECK_FALSE(tip_of(info.action).empty());
  }
  CHECK(action_of_glfw_key(GLFW_KEY_SPACE, 0) == Action(Command::play_pause));
  CHECK(action_of_glfw_key(GLFW_KEY_RIGHT, 0) == Action(Command::step_forward));
  CHECK(action_of_glfw_key(GLFW_KEY_PAGE_DOWN, 0) == Action(Command::next_kernel));
  CHECK(action_of_glfw_key(GLFW_KEY_Z, GLFW_MOD_SHIFT) == Action(Command::stage_farther));
  CHECK(action_of_glfw_key(GLFW_KEY_Z, GLFW_MOD_CONTROL | GLFW_MOD_SHIFT) == Action(Command::redo));
  CHECK(action_of_glfw_key(GLFW_KEY_EQUAL, GLFW_MOD_SHIFT, "=") == Action(Command::zoom_in));
  CHECK(action_of_glfw_key(GLFW_KEY_Y, 0, "z") == Action(Command::stage_closer));  // a German keyboard
  CHECK(action_of_glfw_key(GLFW_KEY_3, 0) == Action(Command::show_inspector, 2));
  CHECK_FALSE(action_of_glfw_key(GLFW_KEY_T, GLFW_MOD_ALT));
  CHECK_FALSE(action_of_glfw_key(GLFW_KEY_X, 0));
}

TEST_CASE("next tile and next kernel go to their begins, and back") {
  const auto trace = trace_stage("three_pass", small_problem(), {16, 16, 1}, small_machine(), Start::cold);
  REQUIRE(trace->kernel_begins().size() == 3);
  Playback clock;
  clock = step_forward(clock, trace->kernel_begins());
  CHECK(clock.t == trace->prediction().kernels[1].begin);
  CHECK(step_back(step_forward(clock, trace->kernel_begins()), trace->kernel_begins()).t == clock.t);
  REQUIRE(trace->tiles().size() > 3);
  const SlotTrack& track = trace->tracks().front();
  for (Picoseconds t : trace->tiles()) {
    const OpSpan* span = trace->last_begun(track, t);
    REQUIRE(span != nullptr);
    CHECK(span->begin == t);
  }
}

TEST_CASE("the timeline's window stays inside the run and keeps what it zooms on") {
  TimeWindow window;
  for (double around : {0.0, 0.3, 1.0}) {
    TimeWindow closer = window;
    for (int n = 0; n < 40; ++n) {
      closer = zoomed(closer, 0.7, around);
      CHECK(closer.begin >= 0);
      CHECK(closer.end <= 1 + 1e-12);
      CHECK(closer.begin < closer.end);
      CHECK(closer.begin <= around + 1e-9);
      CHECK(closer.end >= around - 1e-9);
    }
    const TimeWindow moved = panned(closer, 5);
    CHECK(moved.end == doctest::Approx(1));
    for (int n = 0; n < 60; ++n) closer = zoomed(closer, 2, around);
    CHECK(closer == TimeWindow{});
  }
}
