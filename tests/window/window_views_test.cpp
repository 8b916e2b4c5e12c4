// What the views say: names that fit, units that agree, errors in the window's words, and nothing where nothing is
// known.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "sim/error.h"
#include "sim/schedule/algorithms.h"
#include "support.h"
#include "viz/core/roofline.h"
#include "viz/core/scene.h"
#include "viz/core/session.h"
#include "viz/core/span_names.h"
#include "viz/core/sweep.h"
#include "viz/core/validation.h"
#include "viz/core/window_words.h"

using namespace flashscope;
using namespace flashscope::viz;
using namespace flashscope::viz::testing;

TEST_CASE("every name of a span is whole: shorter than the one before, its brackets closed, no blank at its ends") {
  const unsigned seed = std::random_device{}();
  INFO("seed ", seed);
  std::mt19937 random(seed);
  for (const Algorithm& algorithm : algorithms()) {
    const auto trace = trace_stage(algorithm.name, small_problem(96, 2, random() % 2 == 0),
                                   algorithm.default_tile(small_problem()), small_machine(), Start::cold);
    for (const OpSpan& span : trace->spans()) {
      const std::vector<std::string> names = span_names(what_happens(*trace, span));
      REQUIRE_FALSE(names.empty());
      for (std::size_t n = 0; n < names.size(); ++n) {
        CAPTURE(names[n]);
        CHECK(std::count(names[n].begin(), names[n].end(), '[') == std::count(names[n].begin(), names[n].end(), ']'));
        if (n > 0) CHECK(names[n].size() < names[n - 1].size());
        if (!names[n].empty()) CHECK((names[n].front() != ' ' && names[n].back() != ' '));
      }
    }
  }
  CHECK(span_names("load K[3] from HBM") == std::vector<std::string>{"load K[3] from HBM", "load K[3]", "K[3]"});
  CHECK(span_names("S[2,5] = Q·Kᵀ") == std::vector<std::string>{"S[2,5] = Q·Kᵀ", "S[2,5]"});
}

TEST_CASE("the clock has one unit, that of the axis") {
  CHECK(clock_text(3934.537, 3934.537) == "3.935 of 3.935 ms");
  CHECK(clock_text(0, 12) == "0.000 of 12.000 µs");
  CHECK(clock_text(1, 2'500'000) == "0.000 of 2.500 s");
}

TEST_CASE("warpgroups that one row folds are counted, and CTAs that go as one are not") {
  for (const Algorithm& algorithm : algorithms()) {
    const auto schedule = make_schedule(algorithm.name, small_problem(512, 1));
    int most = 1;
    for (const KernelLaunch& launch : schedule->kernels())
      if (launch.matrix_unit == MatrixUnit::wgmma) most = std::max(most, launch.resources.threads / 128 - 1);
    CAPTURE(algorithm.name);
    CHECK(folded_warpgroups(*schedule) == most);
    CHECK((most > 1) == (algorithm.name.rfind("flash_v3", 0) == 0));
  }
}

TEST_CASE("an error names controls and no options, and the tile that it offers runs") {
  const Machine machine = load_machine("nvidia-h200");
  for (Pass pass : {Pass::forward, Pass::backward})
    for (const Algorithm& left : algorithms(pass))
      for (const Algorithm& right : algorithms(pass)) {
        Settings s;
        s.problem = small_problem(256, 1);
        s.problem.head_dim = 128;
        s.problem.pass = pass;
        s.algorithms = {left.name, right.name};
        for (int rows : {16, 128, 256}) {
          s.tile.br = s.tile.bc = rows;
          for (std::size_t side = 0; side < 2; ++side) {
            const auto tile = tile_that_runs(s, side, machine);
            if (!tile) continue;
            CAPTURE(s.algorithms[side]);
            CAPTURE(tile->br);
            const auto schedule = make_schedule(s.algorithms[side], s.problem, *tile);
            for (const KernelLaunch& launch : schedule->kernels())
              CHECK(occupancy(launch.resources, machine).ctas_per_sm > 0);
          }
        }
      }
  CHECK(in_window_words("choose a smaller --br, --bc or --head-dim") == "choose a smaller Br, Bc or head dim d");
  CHECK(in_window_words("--page-size: 3") == "page size: 3");
  CHECK(in_window_words("a -- b, -1, x--") == "a -- b, -1, x--");

  Settings s;
  s.gpu = machine.name;
  s.problem = small_problem(256, 1);
  s.problem.pass = Pass::backward;
  s.problem.head_dim = 128;
  s.algorithms = {"three_pass", "flash_v2"};
  s.tile = {256, 256, 1};
  Session session({machine}, {});
  session.request(s);
  const Results& results = session.wait();
  CHECK_FALSE(results.errors[1].empty());
  for (const std::string& error : results.errors) {
    CAPTURE(error);
    CHECK(error.find("--") == std::string::npos);
    if (!error.empty()) CHECK(error.find("It runs with Br ") != std::string::npos);
  }
}

TEST_CASE("under a causal mask a window ends at the diagonal, in words as in its control") {
  AttentionProblem p = small_problem(1024, 1, true);
  p.window_left = 512;
  CHECK(describe(p).find("window 512, 0") != std::string::npos);
  p.causal = false;
  CHECK(describe(p).find("window 512, all") != std::string::npos);
}

TEST_CASE("a validation of nothing says so, and draws nothing") {
  for (std::size_t total : {std::size_t{0}, std::size_t{9}}) {
    Validation v;
    v.total = total;
    for (const auto& quantity : quantities()) {
      const Figure figure = validation_figure(v, quantity.which);
      CHECK_FALSE(figure.note.empty());
      for (const Series& series : figure.series) CHECK(series.points.empty());
    }
  }
}

TEST_CASE("the roofline names the dtype of the problem, in units of three digits") {
  const Machine machine = load_machine("nvidia-h200");
  for (const auto& [dtype, name] : {std::pair{DType::bf16, "bf16 "}, {DType::fp16, "fp16 "}, {DType::fp8, "fp8 "}}) {
    Settings s;
    s.problem.dtype = dtype;
    const Figure figure = roofline_figure(s, machine, {}, {});
    int named = 0;
    for (const Series& series : figure.series) {
      named += series.name.find(name) != std::string::npos;
      for (std::size_t at = 0, digits = 0; at < series.name.size(); ++at) {
        digits = series.name[at] >= '0' && series.name[at] <= '9' ? digits + 1 : 0;
        CHECK(digits < 4);
      }
    }
    CHECK(named == 1);
  }
}

TEST_CASE("a sweep says from where on the tensors do not fit into the GPU's memory, and names a density's pattern") {
  Machine machine = small_machine();
  machine.hbm_bytes.value = 1e6;
  Settings s;
  s.gpu = machine.name;
  s.problem = small_problem(256, 1);
  s.tile = {64, 64, 1};
  const std::vector<Machine> machines = {machine};
  SweepResult result;
  const auto job = make_sweep({s, SweepOver::seqlen}, machines, {});
  for (int n = 0; n < 18 && job->step([] { return true; }); ++n) {
  }
  const Figure figure = sweep_figure(job->result(), SweepShow::memory, {});
  CHECK(figure.note.find("N = 512 on three_pass does not fit") != std::string::npos);
  const auto masks = make_sweep({s, SweepOver::density}, machines, {});
  CHECK(sweep_figure(masks->result(), SweepShow::sm_bytes, {}).x.label.find("pattern random") != std::string::npos);
}
