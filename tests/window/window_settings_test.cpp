// Numbers are inside their ranges before anything uses them; what the session makes of them.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include "sim/count/count.h"
#include "sim/error.h"
#include "sim/schedule/algorithms.h"
#include "support.h"
#include "viz/app/arguments.h"
#include "viz/core/session.h"
#include "viz/core/text.h"

using namespace flashscope;
using namespace flashscope::viz;
using namespace flashscope::viz::testing;

TEST_CASE("any number becomes one of the range") {
  for (IntRange range : {kSeqlenRange, kHeadDimRange, kTileRange, kHeadsRange, kBatchRange, IntRange{7, 7}}) {
    for (double value : {-5.0, 0.0, 1e9, 1e300, -1e300, std::numeric_limits<double>::infinity(), 3.7})
      for (double signed_value : {value, -value}) {
        const int clamped = clamp_to(range, signed_value);
        CHECK(clamped >= range.lo);
        CHECK(clamped <= range.hi);
      }
    CHECK(clamp_to(range, std::nan("")) == range.lo);
  }
  CHECK(clamp_to({8, 256}, 64) == 64);
}

TEST_CASE("settings with every number wrong come out usable") {
  for (int wrong : {-5, 0, 1'000'000'000, std::numeric_limits<int>::min(), std::numeric_limits<int>::max()}) {
    Settings s;
    s.problem.batch = s.problem.heads = s.problem.kv_heads = s.problem.seqlen_q = s.problem.seqlen_k =
        s.problem.head_dim = wrong;
    s.tile = {wrong, wrong, wrong};
    s.stage_seqlen = wrong;
    s.algorithms = {"nonsense", ""};
    s = clamp(s);
    CHECK_NOTHROW(validate(s.problem));
    CHECK_NOTHROW(make_schedule(s.algorithms[0], s.problem, s.tile));
    CHECK(s == clamp(s));
  }
}

TEST_CASE("the stage problem keeps tile, dtype, head_dim and mask, and stays within its operations") {
  Settings s;
  s.problem.seqlen_q = s.problem.seqlen_k = 65536;
  s.problem.heads = 32;
  s.problem.kv_heads = 8;
  s.problem.causal = true;
  s.stage_seqlen = 4096;
  for (std::int64_t limit : {60'000, 1'000, 10}) {
    const AttentionProblem p = stage_problem(s, limit);
    CHECK(p.heads % p.kv_heads == 0);
    CHECK(p.heads / p.kv_heads == 4);
    CHECK(p.head_dim == s.problem.head_dim);
    CHECK(p.dtype == s.problem.dtype);
    CHECK(p.causal);
    CHECK(p.seqlen_q <= 4096);
    if (limit > 100)
      for (const std::string& name : s.algorithms) CHECK(count(*make_schedule(name, p, s.tile)).total.ops <= limit);
  }
}

TEST_CASE("a block mask follows the length, and the stage has the first of its blocks") {
  Settings s;
  s.problem = small_problem(1024, 1);
  s.tile = {64, 64, 1};
  s.algorithms = {"flash_v1", "flash_v2"};
  set_block_mask(s.problem, {"random", 30, 7, 64});
  CHECK(s.problem.block_mask.mask->name == "random:0.30:7:64");
  CHECK(block_mask_choice(s.problem) == BlockMaskChoice{"random", 30, 7, 64});
  const BlockMask whole = *s.problem.block_mask.mask;
  CHECK(clamp(s) == s);
  s.stage_seqlen = 512;
  const AttentionProblem stage = stage_problem(s, 60'000);
  CHECK(stage.seqlen_q == 512);
  const BlockMask& part = *stage.block_mask.mask;
  CHECK(part.rows == 8);
  for (int row = 0; row < part.rows; ++row)
    for (int col = 0; col < part.cols; ++col) CHECK(part.kept(row, col) == whole.kept(row, col));
  CHECK_NOTHROW(make_schedule("flash_v2", stage, s.tile));
  for (int n : {1, 63, 64, 65, 1000, 4097}) {
    s.problem.seqlen_q = s.problem.seqlen_k = n;
    const Settings fitted = clamp(s);
    CHECK(fitted.problem.block_mask.mask->rows == (n + 63) / 64);
    CHECK_NOTHROW(make_schedule("flash_v2", fitted.problem, s.tile));
  }
  s.problem.block_mask.mask = std::make_shared<const BlockMask>([] {
    BlockMask mask(64, 64, 2, 2);
    mask.name = "mine.json";
    return mask;
  }());
  CHECK_FALSE(clamp(s).problem.block_mask);  // of another length, and it cannot be made again
}

TEST_CASE("windows are clamped, and packed sequences are cut where the stage ends") {
  Settings s;
  s.problem = small_problem(1024, 1);
  s.problem.window_left = -7;
  s.problem.window_right = 1'000'000'000;
  CHECK(clamp(s).problem.window_left == -1);
  CHECK(clamp(s).problem.window_right == kWindowRange.hi);
  s.problem.causal = true;
  CHECK(clamp(s).problem.window_right == 0);
  s = {};
  s.problem = small_problem(1024, 1);
  s.problem.cu_seqlens_q = s.problem.cu_seqlens_k = {0, 100, 700, 1024};
  s.stage_seqlen = 512;
  s.algorithms = {"flash_v2", "flash_v2"};
  const AttentionProblem stage = stage_problem(s, 60'000);
  CHECK(stage.cu_seqlens_q == std::vector<int>{0, 100, 512, 512});
  CHECK_NOTHROW(make_schedule("flash_v2", stage, s.tile));
}

TEST_CASE("packed sequences: as many in any length, in one batch entry, and lists that are none are made again") {
  Settings s;
  s.problem = small_problem(1000, 4);
  pack_sequences(s.problem, 4);
  CHECK(s.problem.cu_seqlens_q == std::vector<int>{0, 300, 400, 800, 1000});
  CHECK(packed_sequences(s.problem) == 4);
  CHECK(s.problem.batch == 1);
  for (const int length : {1, 2, 3, 999, 65536}) {
    s.problem.seqlen_q = length;
    s.problem.seqlen_k = 2 * length > kSeqlenRange.hi ? length : 2 * length;
    s = clamp(s);
    CAPTURE(length);
    CHECK(packed_sequences(s.problem) == 4);
    CHECK_NOTHROW(validate(s.problem));
  }
  const std::vector<std::vector<int>> bad = {{5}, {0, 5, 3, 65536}, {1, 65536}, {0, 65535}, {-4, 0}, std::vector<int>(500, 0)};
  for (const std::vector<int>& offsets : bad)
    for (const bool both : {false, true}) {
      s.problem.cu_seqlens_q = offsets;
      s.problem.cu_seqlens_k = both ? offsets : std::vector<int>{};
      s.problem.batch = 3;
      CAPTURE(offsets.size());
      const AttentionProblem good = clamp(s).problem;
      CHECK_NOTHROW(validate(good));
      CHECK(clamp(clamp(s)) == clamp(s));
    }
  pack_sequences(s.problem, 1);
  CHECK(s.problem.cu_seqlens_q.empty());
  CHECK(s.problem.cu_seqlens_k.empty());
}

TEST_CASE("the session answers the latest settings") {
  Session session({small_machine()}, {});
  Settings s;
  s.gpu = small_machine().name;
  s.problem = small_problem();
  s.tile = {16, 16, 1};
  for (int seqlen : {200, 150, 100, 64}) {  // a slider being dragged
    s.problem.seqlen_q = s.problem.seqlen_k = seqlen;
    session.request(s);
  }
  const Results& results = session.wait();
  CHECK(results.settings == clamp(s));
  REQUIRE(results.stage[0]);
  REQUIRE(results.stage[1]);
  REQUIRE(results.whole[0]);
  REQUIRE(results.whole[0]->prediction.value);
  CHECK(results.duration == std::max(results.stage[0]->duration(), results.stage[1]->duration()));
  CHECK(results.progress == 1);
  // Pressing "run" again gives the same numbers.
  const Picoseconds before = results.whole[0]->prediction.value->time;
  s.problem.causal = true;
  session.request(s);
  session.wait();
  s.problem.causal = false;
  session.request(s);
  CHECK(session.wait().whole[0]->prediction.value->time == before);
}

TEST_CASE("a tile that fits no SM is an error in words, on that side only") {
  Machine machine = small_machine();
  machine.smem_bytes_per_cta.value = 20'000;
  Session session({machine}, {});
  Settings s;
  s.gpu = machine.name;
  s.problem = small_problem(256);
  s.problem.head_dim = 256;
  s.tile = {256, 256, 1};
  s.algorithms = {"three_pass_naive", "flash_v2"};
  s.tile = {32, 32, 1};
  session.request(s);
  const Results& results = session.wait();
  CHECK(results.stage[0]);
  CHECK_FALSE(results.stage[1]);
  CHECK(results.errors[1].find("shared memory") != std::string::npos);
  REQUIRE(results.whole[1]);
  CHECK_FALSE(results.whole[1]->prediction.value);
  CHECK_FALSE(results.whole[1]->prediction.reason.empty());
}

TEST_CASE("a very long run asks first: formulas are there, the rest says what to press") {
  Session session({load_machine("nvidia-h200")}, {});
  Settings s;
  s.problem.seqlen_q = s.problem.seqlen_k = 65536;
  s.tile = {8, 8, 1};
  s.stage_seqlen = 64;
  session.request(s);
  const Results& results = session.wait();
  CHECK(results.asks_first);
  CHECK(results.progress == 1);
  REQUIRE(results.whole[1]);
  CHECK(results.whole[1]->closed_form.sm_read_bytes > 0);
  CHECK_FALSE(results.whole[1]->count.value);
  CHECK_FALSE(results.whole[1]->prediction.value);
  CHECK(results.whole[1]->prediction.reason.find("Simulate") != std::string::npos);
  CHECK(results.stage[0]);
}

TEST_CASE("what is under way stops when it is cancelled, when settings change, and at the end") {
  const auto started = std::chrono::steady_clock::now();
  {
    Session session({load_machine("nvidia-h200")}, {});
    Settings s;
    s.problem.seqlen_q = s.problem.seqlen_k = 16384;
    s.problem.heads = s.problem.kv_heads = 64;
    session.request(s);
    s.problem.causal = true;
    session.request(s);
    session.cancel();
    const Results& results = session.wait();
    CHECK(results.progress == 1);
    s.problem.causal = false;
    session.request(s);
  }
  CHECK(std::chrono::steady_clock::now() - started < std::chrono::seconds(60));
}

TEST_CASE("a count of many minutes ends when it is cancelled, and says so") {
  Session session({load_machine("nvidia-h200")}, {});
  Settings s;
  s.problem.seqlen_q = s.problem.seqlen_k = 65536;
  s.tile = {2, 2, 1};  // 1.07 thousand million tiles, all of them in one CTA of flash_v1
  s.algorithms = {"flash_v1", "flash_v2"};
  s.stage_seqlen = 64;
  session.request(s);
  CHECK(session.wait().asks_first);
  session.confirm();
  const auto started = std::chrono::steady_clock::now();
  const auto waited = [&] { return std::chrono::steady_clock::now() - started; };
  while (session.poll().progress == 1 && waited() < std::chrono::seconds(30)) std::this_thread::yield();
  CHECK(session.poll().progress < 1);
  session.cancel();
  while (session.is_working() && waited() < std::chrono::seconds(60)) std::this_thread::yield();
  CHECK_FALSE(session.is_working());
  const Results& results = session.wait();
  REQUIRE(results.whole[0]);
  CHECK(results.whole[0]->count.reason == "cancelled");
  CHECK(results.whole[0]->prediction.reason == "cancelled");
  CHECK(results.asks_first);
}

TEST_CASE("an unknown GPU is named") {
  Session session({small_machine()}, {});
  Settings s;
  s.gpu = "abacus";
  session.request(s);
  CHECK(session.wait().errors[0].find("abacus") != std::string::npos);
}

TEST_CASE("arguments: none are the state that a window starts with") {
  const char* none[] = {"flashscope-window"};
  const Arguments a = parse_arguments(1, none);
  CHECK(clamp(a.state) == clamp(AppState{}));  // viz/web/main.cpp counts on it
  CHECK(!a.looks_given);
  CHECK(!a.layout_given);
}

TEST_CASE("arguments: problem options, pictures, and refusals that name option and range") {
  const char* good[] = {"flashscope-window", "--seqlen", "1024",     "--heads", "4",
                        "--causal",          "--dark",   "--render", "out.png", "--size",
                        "640x480",           "--t",      "0.25",     "--left",  "flash_v1"};
  const Arguments a = parse_arguments(static_cast<int>(std::size(good)), good);
  CHECK(a.state.settings.problem.seqlen_k == 1024);
  CHECK(a.state.settings.problem.kv_heads == 4);
  CHECK(a.state.settings.problem.causal);
  CHECK(a.state.settings.algorithms[0] == "flash_v1");
  CHECK(a.state.looks.theme == Theme::dark);
  REQUIRE(a.render);
  CHECK(a.render->width == 640);
  CHECK(a.render->at == 0.25);
  for (const auto& [option, value] : {std::pair{"--size", "0x0"},
                                      {"--size", "640"},
                                      {"--t", "nan"},
                                      {"--t", "2"},
                                      {"--scale", "0"},
                                      {"--seqlen", "12abc"},
                                      {"--left", "nonsense"}}) {
    const char* bad[] = {"flashscope-window", option, value};
    CAPTURE(option);
    CAPTURE(value);
    try {
      parse_arguments(3, bad);
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::usage);
    }
  }
}

TEST_CASE("sizes are decimal and keep three digits") {
  CHECK(size_text(0) == "0 B");
  CHECK(size_text(999) == "999 B");
  CHECK(size_text(131072) == "131 kB");
  CHECK(size_text(4456448) == "4.46 MB");
  CHECK(size_text(999'950'000) == "1.00 GB");
  CHECK(size_text(8.66e9) == "8.66 GB");
  CHECK(grouped(1234567) == "1,234,567");
  CHECK(grouped(-1234) == "-1,234");
  CHECK(time_text(0.4124) == "412 ns");
  CHECK(time_text(1320) == "1.32 ms");
}
