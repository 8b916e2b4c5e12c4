// The state as a line of text, undo, work beside the frame loop.
#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <random>

#include "sim/error.h"
#include "support.h"
#include "viz/core/history.h"
#include "viz/core/snapshot.h"
#include "viz/core/state_token.h"

using namespace flashscope;
using namespace flashscope::viz;
using namespace flashscope::viz::testing;

namespace {

template <class T>
T pick(std::mt19937& random, std::initializer_list<T> from) {
  return *(from.begin() + std::uniform_int_distribution<std::size_t>(0, from.size() - 1)(random));
}

AppState random_state(std::mt19937& random) {
  const auto number = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  AppState s;
  s.settings.problem = random_problem(random);
  s.settings.problem.window_left = number(-1, 50);
  if (number(0, 1) == 1)
    set_block_mask(s.settings.problem, {block_mask_patterns()[static_cast<std::size_t>(number(0, 3))], number(1, 100),
                                        number(0, 9999), number(1, 64)});
  s.settings.problem.pass = pick(random, {Pass::forward, Pass::backward});
  s.settings.tile = {number(8, 256), number(8, 256), number(1, 8)};
  s.settings.algorithms = {pick<std::string>(random, {"three_pass", "flash_v1"}), "flash_v2"};
  s.settings.gpu = pick<std::string>(random, {"nvidia-h200", "my gpu, 2 %", "größe"});
  s.settings.start = pick(random, {Start::cold, Start::warm, Start::cold_each_kernel});
  s.settings.stage_seqlen = number(64, 4096);
  s.playback.t = number(0, 1'000'000'000);
  if (number(0, 2) == 0) pack_sequences(s.settings.problem, number(2, 9));
  s.playback.speed = number(kSlowest, kFastest);
  s.view = pick(random, {View::explore, View::validate});
  s.inspector = inspectors()[static_cast<std::size_t>(number(0, static_cast<int>(inspectors().size()) - 1))].which;
  s.side = number(0, 1);
  s.stage_level = number(0, kStageLevels - 1);
  s.timeline = zoomed({}, 0.37, 0.1 * number(0, 10));
  s.sweep = {sweep_overs()[static_cast<std::size_t>(number(0, 6))].which,
             sweep_shows()[static_cast<std::size_t>(number(0, 3))].which};
  s.softmax.scores = {0.1 * number(-50, 50), -HUGE_VAL, 3};
  s.softmax.bc = number(1, 3);
  s.softmax.backward = number(0, 1) == 1;
  s.softmax.naive = pick(random, {DType::fp16, DType::fp32});
  s.validate_quantity = number(0, 4);
  s.validate_set = number(0, 2);
  s.tall_timeline = number(0, 1) == 1;
  s.looks = {pick(random, {Theme::light, Theme::dark, Theme::dark_safe}), number(50, 300), number(0, 1) == 1};
  s.show_help = number(0, 1) == 1;
  return clamp(s);
}

}  // namespace

TEST_CASE("a token brings back the state it was made of, and is short for the default") {
  const unsigned seed = std::random_device{}();
  INFO("seed ", seed);
  std::mt19937 random(seed);
  CHECK(token_of({}) == "fs1");
  CHECK(state_of_token("fs1") == AppState{});
  for (int round = 0; round < 300; ++round) {
    const AppState state = random_state(random);
    const std::string token = token_of(state);
    CAPTURE(token);
    CHECK(state_of_token(token) == state);
    CHECK(state_of_token("#" + token + "\n") == state);
    CHECK(token_of(state_of_token(token)) == token);
    CHECK(token.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~,=%") ==
          std::string::npos);
  }
}

TEST_CASE("P05: what is not a token is refused by name, and numbers out of range are clamped") {
  for (const char* bad : {"",
                          "hello",
                          "fs2",
                          "fs1,",
                          "fs1,seqlen-q",
                          "fs1,seqlen-q=",
                          "fs1,seqlen-q=abc",
                          "fs1,seqlen-q=12abc",
                          "fs1,seqlen-q=0x40",
                          "fs1,seqlen-q=1e3",
                          "fs1,nonsense=1",
                          "fs1,left=nonsense",
                          "fs1,dtype=int8",
                          "fs1,causal=yes",
                          "fs1,t=99999999999999999999",
                          "fs1,scores=1~x",
                          "fs1,scores=nan",
                          "fs1,scores=0x10",
                          "fs1,gpu=%4",
                          "fs1,gpu=%zz",
                          "fs1,start=lukewarm",
                          "fs1,show=nothing",
                          "fs1,from=inf"}) {
    CAPTURE(bad);
    try {
      state_of_token(bad);
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::usage);
      CHECK(std::string(error.what()).size() > 10);
    }
  }
  const AppState state = state_of_token(
      "fs1,seqlen-q=1000000000,seqlen-k=-5,heads=0,br=100000,t=-7,level=99,side=-1,size=5000,from=2,to=1");
  CHECK(state == clamp(state));
  CHECK(state.settings.problem.seqlen_q == kSeqlenRange.hi);
  CHECK(state.settings.problem.seqlen_k == kSeqlenRange.lo);
  CHECK(state.settings.problem.heads == 1);
  CHECK(state.playback.t == 0);
  CHECK(state.timeline == TimeWindow{});
}

TEST_CASE("random bytes after a valid head never crash and never pass by half") {
  const unsigned seed = std::random_device{}();
  INFO("seed ", seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 3000; ++round) {
    std::string token = "fs1,left=flash_v1,t=77,scores=1~2";
    for (int n = 0; n < 3; ++n)
      token[std::uniform_int_distribution<std::size_t>(0, token.size() - 1)(random)] =
          static_cast<char>(std::uniform_int_distribution<int>(0, 255)(random));
    try {
      const AppState state = state_of_token(token);
      CHECK(state == clamp(state));
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::usage);
    }
  }
}

TEST_CASE("undo: a drag is one change, redo comes back, a new change forgets what was undone") {
  History history;
  Settings s;
  const Settings first = s;
  const auto set = [&](int n, bool holding) {
    const Settings before = s;
    s.problem.seqlen_q = n;
    history.record(before, s, holding);
  };
  set(100, true);
  set(200, true);
  set(300, true);
  history.record(s, s, false);  // released
  const Settings dragged = s;
  set(400, false);
  CHECK(history.undo(s) == dragged);
  s = dragged;
  CHECK(history.undo(s) == first);
  s = first;
  CHECK_FALSE(history.can_undo());
  CHECK(history.undo(s) == first);
  s = history.redo(s);
  CHECK(s == dragged);
  CHECK(history.can_redo());
  set(500, false);
  CHECK_FALSE(history.can_redo());
}

namespace {

struct Counting final : SlicedJob<int> {
  explicit Counting(int last) : m_last(last) {}
  bool step(const std::function<bool()>& wanted) override {
    for (int n = 0; n < 1000 && wanted(); ++n) {
    }
    return ++m_done < m_last;
  }
  int result() const override { return m_done; }
  double progress() const override { return static_cast<double>(m_done) / m_last; }
  int m_last, m_done = 0;
};

}  // namespace

TEST_CASE("background: the latest request wins, cancel keeps what is there, destruction waits for nothing") {
  std::atomic<int> woken = 0;
  Background<int, int> work([](const int& last) { return std::make_unique<Counting>(last); }, [&] { ++woken; });
  double progress = 0;
  CHECK(*work.poll(progress) == 0);
  CHECK(progress == 1);
  for (int last : {1000, 500, 20}) work.request(last);
  work.wait();
  CHECK(*work.poll(progress) == 20);
  CHECK(progress == 1);
  CHECK(woken > 0);
  work.request(20);  // the same again: nothing to do
  CHECK_FALSE(work.is_working());
  work.request(1'000'000'000);
  work.cancel();
  work.wait();
  CHECK_FALSE(work.is_working());
  work.request(2'000'000'000);  // still under way when it is destroyed
}

TEST_CASE("equal states have equal snapshots, and another clock another") {
  Session session({small_machine()}, {});
  AppState state;
  state.settings.gpu = small_machine().name;
  state.settings.problem = small_problem();
  state.settings.tile = {16, 16, 1};
  request_for(session, state);
  const Results results = session.wait();
  state.playback.t = results.duration / 3;
  const std::string one = snapshot_json(state, results, session);
  CHECK(one == snapshot_json(state, results, session));
  CHECK(one.find(token_of(state)) != std::string::npos);
  AppState later = state;
  later.playback.t = results.duration / 2;
  CHECK(snapshot_json(later, results, session) != one);
  for (const auto& entry : inspectors()) {
    state.inspector = entry.which;
    const std::string csv = seen_as_csv(state, results, session);
    CAPTURE(entry.key);
    if (entry.which != Inspector::sweep && entry.which != Inspector::source) CHECK(csv.find('\n') != std::string::npos);
  }
}
