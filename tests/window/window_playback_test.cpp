// The clock: stepping, scrubbing, speed; and the keys that drive it.
#include <doctest/doctest.h>

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

TEST_CASE("every key of the help does what it says") {
  CHECK(command_of_key(GLFW_KEY_SPACE, 0) == Command::play_pause);
  CHECK(command_of_key(GLFW_KEY_RIGHT, 0) == Command::step_forward);
  CHECK(command_of_key(GLFW_KEY_LEFT, 0) == Command::step_back);
  CHECK(command_of_key(GLFW_KEY_N, 0) == Command::next_stall);
  CHECK(command_of_key(GLFW_KEY_B, 0) == Command::previous_stall);
  CHECK(command_of_key(GLFW_KEY_HOME, 0) == Command::to_start);
  CHECK(command_of_key(GLFW_KEY_END, 0) == Command::to_end);
  CHECK(command_of_key(GLFW_KEY_UP, 0) == Command::faster);
  CHECK(command_of_key(GLFW_KEY_DOWN, 0) == Command::slower);
  CHECK(command_of_key(GLFW_KEY_F1, 0) == Command::toggle_help);
  CHECK(command_of_key(GLFW_KEY_T, 0) == Command::toggle_theme);
  CHECK_FALSE(command_of_key(GLFW_KEY_T, GLFW_MOD_CONTROL));
  CHECK_FALSE(command_of_key(GLFW_KEY_X, 0));
}
