// What the inspectors show: computed from schedule, count, engine and recording, never a second time.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "sim/count/count.h"
#include "sim/error.h"
#include "sim/schedule/algorithms.h"
#include "sim/schedule/memory.h"
#include "support.h"
#include "viz/core/app_state.h"
#include "viz/core/byte_table.h"
#include "viz/core/link_use.h"
#include "viz/core/memory_curve.h"
#include "viz/core/occupancy_table.h"
#include "viz/core/roofline.h"
#include "viz/core/snapshot.h"
#include "viz/core/source_view.h"
#include "viz/core/span_names.h"
#include "viz/core/stage_caption.h"

using namespace flashscope;
using namespace flashscope::viz;
using namespace flashscope::viz::testing;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

Settings small_settings() {
  Settings s;
  s.gpu = small_machine().name;
  s.problem = small_problem();
  s.tile = {16, 16, 1};
  return s;
}

std::array<std::optional<WholeRun>, 2> runs_of(const Settings& s, const Machine& machine) {
  std::array<std::optional<WholeRun>, 2> runs;
  for (std::size_t side = 0; side < 2; ++side) {
    const auto schedule = make_schedule(s.algorithms[side], s.problem, s.tile);
    runs[side] = WholeRun{kernels::Measured<KernelCount>::of(count(*schedule).total), schedule->closed_form(),
                          compulsory_bytes(s.problem), kernels::Measured<Prediction>::of(simulate(*schedule, machine))};
  }
  return runs;
}

RecordingRow recorded(const Settings& s, std::size_t side, const Prediction& p, double factor) {
  RecordingRow row;
  row.problem = s.problem;
  row.algorithm = s.algorithms[side];
  row.tile = s.tile;
  row.measured.time_us = kernels::Measured<double>::of(p.time_us() * factor);
  const auto bytes = [&](std::int64_t n) {
    return kernels::Measured<std::int64_t>::of(static_cast<std::int64_t>(static_cast<double>(n) * factor));
  };
  row.measured.sm_read_bytes = bytes(p.count.sm.sector_read);
  row.measured.sm_write_bytes = bytes(p.count.sm.sector_write);
  row.measured.hbm_read_bytes = bytes(p.hbm.read);
  row.measured.hbm_write_bytes = bytes(p.hbm.write + p.hbm_dirty_bytes);
  row.measured.o.passed = row.measured.lse.passed = true;
  return row;
}

}  // namespace

TEST_CASE("online softmax: any scores, any tile, the same O as plain softmax, and the last step is the whole row") {
  for (const SoftmaxExample& example : softmax_examples())
    for (int bc = 1; bc <= static_cast<int>(example.scores.size()); ++bc) {
      SoftmaxChoice choice;
      choice.scores = example.scores;
      choice.bc = bc;
      const SoftmaxSteps steps = softmax_steps(choice);
      CAPTURE(example.name);
      CAPTURE(bc);
      CHECK(static_cast<int>(steps.steps.size()) == num_tiles(static_cast<int>(example.scores.size()), bc));
      CHECK(steps.o == doctest::Approx(steps.reference_o).epsilon(1e-12));
      for (std::size_t n = 0; n < steps.steps.size(); ++n) {
        const SoftmaxStep& s = steps.steps[n];
        CHECK(s.m >= s.m_before);
        CHECK(s.rescale <= 1);
        if (n > 0) CHECK(s.l_before == steps.steps[n - 1].l);
        if (std::isfinite(s.m_before)) CHECK(s.rescale == doctest::Approx(std::exp(s.m_before - s.m)));
      }
      CHECK(steps.steps.back().acc / steps.steps.back().l == doctest::Approx(steps.o));
    }
}

TEST_CASE("tiles read from the last to the first: each key keeps its place, its score and its V, and O is the same") {
  for (const SoftmaxExample& example : softmax_examples())
    for (int bc = 1; bc <= static_cast<int>(example.scores.size()); ++bc) {
      SoftmaxChoice choice;
      choice.scores = example.scores;
      choice.bc = bc;
      const SoftmaxSteps forward = softmax_steps(choice);
      choice.backward = true;
      const SoftmaxSteps backward = softmax_steps(choice);
      CAPTURE(example.name);
      CAPTURE(bc);
      CHECK(backward.values == forward.values);
      CHECK(backward.o == doctest::Approx(forward.o).epsilon(1e-12));
      REQUIRE(backward.steps.size() == forward.steps.size());
      CHECK(backward.steps.front().last == static_cast<int>(choice.scores.size()));
      CHECK(backward.steps.back().first == 0);
      // The first tile read is summed from its own keys and their V.
      const SoftmaxStep& s = backward.steps.front();
      double l = 0, acc = 0;
      for (int k = s.first; k < s.last; ++k) {
        const double p = std::isfinite(s.m) ? std::exp(choice.scores[static_cast<std::size_t>(k)] - s.m) : 0;
        l += p;
        acc += p * (k + 1);
      }
      CHECK(s.l == doctest::Approx(l));
      CHECK(s.acc == doctest::Approx(acc));
    }
}

TEST_CASE("the naive formula overflows in fp16 past 11 and not in fp32; the masked row is 0") {
  SoftmaxChoice choice;
  choice.scores = {12, 1};
  choice.naive = DType::fp16;
  CHECK(softmax_steps(choice).naive_fails);
  choice.naive = DType::fp32;
  CHECK_FALSE(softmax_steps(choice).naive_fails);
  choice.scores = {100, 1};
  CHECK(softmax_steps(choice).naive_fails);
  choice.scores = {-kInf, -kInf};
  const SoftmaxSteps masked = softmax_steps(choice);
  CHECK(masked.o == 0);
  CHECK(masked.lse == -kInf);
}

TEST_CASE("P05: scores, tiles and steps are clamped before use") {
  for (double wrong : {std::nan(""), kInf, 1e300, -1e300}) {
    SoftmaxChoice choice;
    choice.scores.assign(100, wrong);
    choice.bc = -5;
    choice.tiles = 1'000'000;
    choice = clamp(choice);
    CHECK(choice.scores.size() == kMostScores);
    for (double s : choice.scores) CHECK(std::isfinite(s));
    CHECK(choice == clamp(choice));
    CHECK_NOTHROW(softmax_steps(choice));
  }
  SoftmaxChoice none;
  none.scores.clear();
  CHECK_NOTHROW(softmax_steps(none));
}

TEST_CASE("occupancy: the smallest limit is the engine's, for every algorithm and tile") {
  const Machine machine = load_machine("nvidia-h200");
  for (const Algorithm& algorithm : algorithms())
    for (int side : {16, 64, 128, 256}) {
      const auto schedule = make_schedule(algorithm.name, small_problem(512, 4), {side, side, 1});
      const auto rows = occupancy_table(*schedule, machine);
      REQUIRE(rows.size() == schedule->kernels().size());
      for (std::size_t k = 0; k < rows.size(); ++k) {
        const Occupancy whole = occupancy(schedule->kernels()[k].resources, machine);
        CHECK(rows[k].ctas_per_sm == whole.ctas_per_sm);
        int least = std::numeric_limits<int>::max(), binding = 0;
        for (const OccupancyLimit& limit : rows[k].limits) {
          least = std::min(least, limit.ctas);
          if (limit.binds) {
            ++binding;
            CHECK(limit.name == whole.limit);
            CHECK(limit.ctas == whole.ctas_per_sm);
          }
        }
        CHECK(least == whole.ctas_per_sm);
        CHECK(binding == 1);
        CHECK(rows[k].last_wave > 0);
        CHECK(rows[k].last_wave <= 1);
      }
    }
}

TEST_CASE("memory: N fits and N + 1 does not; three passes need N² and tiles N") {
  const Settings s;
  for (std::size_t side = 0; side < 2; ++side)
    for (double bytes : {1e9, 16e9}) {
      const int n =
          largest_seqlen(*make_schedule(s.algorithms[side], s.problem, s.tile), static_cast<std::int64_t>(bytes));
      CHECK(static_cast<double>(memory_at(s, s.algorithms[side], n)) <= bytes);
      CHECK(static_cast<double>(memory_at(s, s.algorithms[side], n + 1)) > bytes);
    }
  const double four_times =
      static_cast<double>(memory_at(s, "three_pass", 65536)) / static_cast<double>(memory_at(s, "three_pass", 32768));
  CHECK(four_times > 3.9);
  CHECK(memory_at(s, "flash_v2", 65536) == 2 * memory_at(s, "flash_v2", 32768));
  const MemoryCurve curve = memory_curve(s, {load_machine("nvidia-h200"), load_machine("nvidia-t4")});
  REQUIRE(curve.limits.size() == 2);
  CHECK(curve.limits[0].bytes < curve.limits[1].bytes);
  CHECK(curve.figure.series.size() == 2);
}

TEST_CASE("bytes: groups add up to the prediction, at both levels") {
  const Settings s = small_settings();
  const auto runs = runs_of(s, small_machine(100'000));
  const ByteTable table = byte_table(s, runs);
  REQUIRE_FALSE(table.rows.empty());
  for (std::size_t side = 0; side < 2; ++side) {
    std::int64_t sm = 0, hbm = 0;
    for (const ByteRow& row : table.rows) {
      sm += row.sm(side);
      hbm += row.hbm(side);
    }
    const Prediction& p = *runs[side]->prediction.value;
    CHECK(sm == p.count.sm.read + p.count.sm.write);
    CHECK(hbm == p.hbm.read + p.hbm.write);
  }
  CHECK(byte_table(s, {}).rows.empty());
}

TEST_CASE("every tensor belongs to one group") {
  for (int t = 0; t < kNumTensors; ++t) {
    int groups = 0;
    for (const TensorGroup& group : tensor_groups())
      for (Tensor tensor : group.tensors) groups += tensor == static_cast<Tensor>(t);
    CHECK(groups == 1);
  }
}

TEST_CASE("roofline: no predicted point is above the roof; measured ones stand where they were measured") {
  Settings s = small_settings();
  const Machine machine = small_machine();
  const auto runs = runs_of(s, machine);
  Recording recording;
  recording.machine = machine.name;
  for (std::size_t side = 0; side < 2; ++side)
    recording.rows.push_back(recorded(s, side, *runs[side]->prediction.value, 2));
  const Figure figure = roofline_figure(s, machine, runs, {recording});
  const double peak = machine.fma_flops_per_clk.value * machine.num_sms.value * machine.sm_clock_mhz.value * 1e6;
  int predicted = 0, measured = 0;
  for (const Series& series : figure.series)
    for (const FigurePoint& point : series.points) {
      if (series.form == Series::Form::line) continue;
      CHECK(point.y <= peak * (1 + 1e-9));
      CHECK(point.y <= machine.hbm_read_gb_per_s.value * 1e9 * point.x * 2.01);  // reads alone are bound by the roof
      predicted += series.form == Series::Form::predicted_dots;
      measured += series.form == Series::Form::measured_dots;
    }
  CHECK(predicted == 2);
  CHECK(measured == 2);
}

TEST_CASE("a sweep in slices: counts first, then times; recorded values are on its points; a dropped one stops") {
  Settings s = small_settings();
  s.algorithms = {"flash_v1", "flash_v2"};
  const std::vector<Machine> machines = {small_machine()};
  Recording recording;
  recording.machine = s.gpu;
  Settings at = s;
  at.problem = small_problem(300);
  recording.rows.push_back(recorded(at, 1, *runs_of(at, machines[0])[1]->prediction.value, 1));
  const std::vector<Recording> recordings = {recording};
  for (SweepOver over : {SweepOver::br, SweepOver::heads}) {
    const auto job = make_sweep({s, over}, machines, recordings);
    double last = -1;
    const auto wanted = [] { return true; };
    while (job->step(wanted)) {
      CHECK(job->progress() >= last);
      last = job->progress();
    }
    const SweepResult result = job->result();
    for (const auto& side : result.sides)
      for (const SweepPoint& point : side) {
        CAPTURE(point.value);
        CHECK((point.refusal.empty() ? point.time_us.has_value() : !point.time_us.has_value()));
        if (point.refusal.empty()) CHECK(*point.sm_bytes >= *point.hbm_bytes / 64);
      }
  }
  const std::vector<int> values = sweep_values({s, SweepOver::seqlen}, recordings);
  CHECK(std::find(values.begin(), values.end(), 300) != values.end());
  CHECK(std::is_sorted(values.begin(), values.end()));
  for (SweepShow show : {SweepShow::hbm_bytes, SweepShow::sm_bytes, SweepShow::time, SweepShow::memory}) {
    SweepResult half;  // nothing timed yet: the figure says nothing wrong
    half.request = {s, SweepOver::seqlen};
    for (auto& side : half.sides)
      for (int value : values) {
        Settings there = s;
        there.problem.seqlen_q = there.problem.seqlen_k = value;
        side.push_back({value, there, "", "", {}, {}, {}, {}});
      }
    const Figure figure = sweep_figure(half, show, recordings);
    int rings = 0;
    for (const Series& series : figure.series)
      if (series.form == Series::Form::measured_dots) rings += static_cast<int>(series.points.size());
    CHECK(rings == (show == SweepShow::memory ? 0 : 1));
  }
}

TEST_CASE("sweeps over SMEM and density: the largest tile that fits, and bytes that fall with the blocks") {
  Settings s = small_settings();
  s.problem = small_problem(512, 1);
  s.algorithms = {"three_pass", "flash_v2"};
  const std::vector<Machine> machines = {small_machine()};
  for (SweepOver over : {SweepOver::smem, SweepOver::density}) {
    const auto job = make_sweep({s, over}, machines, {});
    while (job->step([] { return true; })) {
    }
    std::int64_t last = 0;
    const SweepResult result = job->result();
    for (const SweepPoint& point : result.sides[1]) {
      CAPTURE(point.value);
      if (!point.refusal.empty()) continue;
      REQUIRE(point.settings);
      if (over == SweepOver::smem) {
        const TileShape& tile = point.settings->tile;
        CHECK(tile.br == tile.bc);
        CHECK(point.note == "Br = Bc = " + std::to_string(tile.br));
        const auto schedule = make_schedule("flash_v2", s.problem, tile);
        for (const KernelLaunch& launch : schedule->kernels())
          CHECK(launch.resources.smem_bytes <= point.value * 1024);
        if (last > 0) CHECK(*point.sm_bytes <= last);  // the theorem: fewer bytes with more memory
      } else {
        CHECK(block_mask_choice(point.settings->problem).percent == point.value);
        if (last > 0) CHECK(*point.sm_bytes >= last);
      }
      last = *point.sm_bytes;
    }
    CHECK(last > 0);
  }
}

TEST_CASE("a sweep over N takes the mask and the packed sequences along") {
  Settings s = small_settings();
  s.problem = small_problem(512, 1);
  s.algorithms = {"flash_v2", "flash_v2"};
  s.gpu = small_machine().name;
  set_block_mask(s.problem, {"local", 50, 0, 64});
  pack_sequences(s.problem, 3);
  const std::vector<Machine> machines = {small_machine()};  // the job keeps a reference
  const auto job = make_sweep({s, SweepOver::seqlen}, machines, {});
  std::size_t to_come = job->result().to_come;
  CHECK(to_come > 0);
  while (job->step([] { return true; })) CHECK(job->result().to_come == --to_come);  // a stopped one is told from a whole one
  const SweepResult result = job->result();
  CHECK(result.to_come == 0);
  for (const SweepPoint& point : result.sides[0]) {
    CAPTURE(point.value);
    REQUIRE(point.settings);
    CHECK(point.sm_bytes);
    CHECK(point.settings->problem.cu_seqlens_q.back() == point.value);
    CHECK(point.settings->problem.block_mask);
  }
  CHECK_FALSE(result.sides[0].empty());
}

TEST_CASE("validation: errors, summary and order follow from the rows") {
  Settings s = small_settings();
  s.problem = small_problem(512, 4);
  const Machine machine = small_machine();
  const auto runs = runs_of(s, machine);
  Recording recording;
  recording.machine = machine.name;
  recording.rows.push_back(recorded(s, 0, *runs[0]->prediction.value, 1));
  recording.rows.push_back(recorded(s, 1, *runs[1]->prediction.value, 2));
  recording.rows.push_back(recorded(s, 1, *runs[1]->prediction.value, 2));
  recording.rows.back().algorithm = "nonsense";
  const std::vector<Machine> machines = {machine};
  const std::vector<Recording> recordings = {recording};
  const auto job = make_validation({machine.name}, machines, recordings);
  while (job->step([] { return true; })) {
  }
  const Validation v = job->result();
  REQUIRE(v.rows.size() == 3);
  CHECK(v.total == 3);
  CHECK(*v.rows[0].values[0].error() == doctest::Approx(0).epsilon(1e-6));
  CHECK(*v.rows[1].values[0].error() == doctest::Approx(-0.5).epsilon(1e-6));
  CHECK_FALSE(v.rows[2].refusal.empty());
  const ErrorSummary time = summary_of(v.rows, MeasuredQuantity::time, row_sets().front());
  CHECK(time.rows == 2);
  CHECK(time.not_predicted == 1);
  CHECK(time.worst == doctest::Approx(0.5).epsilon(1e-6));
  CHECK(time.mean == doctest::Approx(0.25).epsilon(1e-6));
  CHECK(by_error(v, MeasuredQuantity::time) == std::vector<std::size_t>{1, 0, 2});
  std::size_t points = 0;
  for (const Series& series : validation_figure(v, MeasuredQuantity::time).series)
    points += series.form == Series::Form::predicted_dots ? series.points.size() : 0;
  CHECK(points == 2);
  CHECK(make_validation({"unknown"}, machines, recordings)->result().total == 0);
}

TEST_CASE("a validation predicts the rows that are looked at first, two side by side, and none of them twice") {
  Settings s = small_settings();
  const Machine machine = small_machine(2'000'000);
  Recording recording;
  recording.machine = machine.name;
  for (int seqlen : {64, 512, 96, 1024, 128}) {  // S is about as large as L2 in those of 512 and 1024 alone
    s.problem = small_problem(seqlen, 4);
    recording.rows.push_back(recorded(s, 1, *runs_of(s, machine)[1]->prediction.value, 2));
  }
  const std::vector<Machine> machines = {machine};
  const std::vector<Recording> recordings = {recording};
  const auto always = [] { return true; };
  ValidationMemory memory;
  memory.set = 1;  // hard rows
  const RowGroup& hard = row_sets()[1];
  std::size_t of_set = 0;
  for (const RecordingRow& row : recording.rows) of_set += is_hard_row(row, machine);
  REQUIRE(of_set > 0);
  REQUIRE(of_set < recording.rows.size());
  const auto job = make_validation({machine.name}, machines, recordings, &memory);
  while (job->result().rows.size() < of_set) job->step(always);
  CHECK(rows_in(job->result().rows, hard) == static_cast<int>(of_set));
  const std::size_t done = job->result().rows.size();
  CHECK(job->step([] { return false; }));  // stopped: half a row is no row
  CHECK(job->result().rows.size() == done);

  // What was stopped goes on: nothing is lost, and what is there comes without a prediction.
  const auto again = make_validation({machine.name}, machines, recordings, &memory);
  again->step(always);
  CHECK(again->result().rows.size() == done);
  while (again->step(always)) {
  }
  const Validation all = again->result();
  REQUIRE(all.rows.size() == recording.rows.size());
  for (std::size_t n = 0; n < all.rows.size(); ++n) {
    const ValidatedRow alone = validated_row(recording.rows[n], machine);
    CHECK(all.rows[n].index == n);
    CHECK(all.rows[n].refusal.empty());
    for (std::size_t q = 0; q < kNumQuantities; ++q)
      CHECK(all.rows[n].values[q].predicted == alone.values[q].predicted);
  }
  const auto third = make_validation({machine.name}, machines, recordings, &memory);
  CHECK_FALSE(third->step([]() -> bool { throw std::logic_error("predicted again"); }));
  CHECK(third->result().rows.size() == all.rows.size());
}

TEST_CASE("a load that waits for the issue of its instructions is not said to multiply") {
  int issued = 0, multiplied = 0;
  for (const char* name : {"flash_v2", "flash_v2_tensor", "flash_v1"}) {
    AttentionProblem problem = small_problem(256, 4);
    problem.head_dim = 64;
    problem.dtype = DType::bf16;
    const auto trace = trace_stage(name, problem, {64, 64, 1}, small_machine(), Start::cold);
    for (const OpSpan& span : trace->spans()) {
      const bool moves = span.op.op == Op::load || span.op.op == Op::store;
      if (span.reason != Reason::fma) {
        CHECK(title_of(span) == title_of(span.reason));
        CHECK(remark_on(span).empty());
      } else if (moves) {
        ++issued;
        CHECK(title_of(span) == "issue");
        CHECK(remark_on(span).find("issued by") != std::string::npos);
      } else {
        ++multiplied;
        CHECK(title_of(span) == "FMA");
      }
    }
  }
  CHECK(issued > 0);
  CHECK(multiplied > 0);
  for (int r = 0; r < kNumReasons; ++r)
    CHECK(meaning_of(static_cast<Reason>(r)).rfind(title_of(static_cast<Reason>(r)) + ":", 0) == 0);
  CHECK(meaning_of(Reason::fma).find("loads and stores") != std::string::npos);
}

TEST_CASE("a stage says the tile that its kernel is built with where that is not the one that is set") {
  AttentionProblem problem = small_problem(256, 2);
  problem.head_dim = 64;
  problem.dtype = DType::bf16;
  const TileShape own = algorithm_named("flash_v2_tensor").default_tile(problem);
  CHECK(not_its_tile(*make_schedule("flash_v2_tensor", problem, own)).empty());
  const auto words = not_its_tile(*make_schedule("flash_v2_tensor", problem, {own.br, own.bc / 2, own.stages}));
  REQUIRE_FALSE(words.empty());
  for (const std::string& text : words)
    CHECK(text.find(std::to_string(own.br) + " × " + std::to_string(own.bc)) != std::string::npos);
}

TEST_CASE("the units' shares of an SM's time add up to the time that its CTAs take") {
  const auto trace = trace_stage("flash_v2", small_problem(128, 4), {16, 16, 1}, small_machine(), Start::cold);
  const auto duration = static_cast<double>(trace->duration());
  constexpr int kColumns = 57;
  const UnitUse use = unit_use(*trace, 0, 0, duration, kColumns);
  double shared = 0, spent = 0;
  int slots = 0;
  for (int column = 0; column < kColumns; ++column) {
    double sum = 0;
    for (const auto& shares : use) sum += static_cast<double>(shares[static_cast<std::size_t>(column)]);
    CHECK(sum < 1 + 1e-4);
    shared += sum * duration / kColumns;
  }
  for (const SlotTrack& track : trace->tracks()) {
    if (track.sm != 0) continue;
    ++slots;
    for (std::size_t n = track.first; n < track.last; ++n)
      spent += static_cast<double>(trace->spans()[n].end - trace->spans()[n].begin);
  }
  CHECK(shared * slots == doctest::Approx(spent).epsilon(1e-3));
}

TEST_CASE("the links' use over time carries the bytes that the run moved") {
  const Machine machine = small_machine(100'000);
  const auto trace = trace_stage("three_pass", small_problem(), {16, 16, 1}, machine, Start::cold);
  const auto duration = static_cast<double>(trace->duration());
  const LinkUse use = link_use(*trace, 0, duration, 500);
  REQUIRE(use.hbm.size() == 500);
  for (float share : use.hbm) CHECK((share >= 0 && share <= 1));
  const LinkUse part = link_use(*trace, duration * 0.5, duration * 0.6, 50);
  for (std::size_t n = 0; n < part.l2.size(); ++n) CHECK(part.l2[n] == doctest::Approx(use.l2[250 + n]).epsilon(1e-3));
  CHECK(link_use(*trace, 5, 5, 10).hbm == std::vector<float>(10, 0));
}

TEST_CASE("every operation of every schedule lights a line of its kernel's source, in the kernel that runs it") {
  std::vector<Algorithm> with_kernels = algorithms(Pass::forward);
  for (const Algorithm& algorithm : algorithms(Pass::backward))
    if (!algorithm.rung.empty()) with_kernels.push_back(algorithm);
  for (const Algorithm& algorithm : with_kernels) {
    const SourceFile file = source_of(algorithm.name, algorithm.pass);
    CAPTURE(algorithm.name);
    CAPTURE(name_of(algorithm.pass));
    REQUIRE_FALSE(file.lines.empty());
    AttentionProblem problem = small_problem(96, 1, true);
    problem.pass = algorithm.pass;
    const auto schedule = make_schedule(algorithm.name, problem);
    struct Sink final : OpSink {
      void op(const TileOp& o) override { ops.push_back(o); }
      std::vector<TileOp> ops;
    };
    for (std::size_t k = 0; k < schedule->kernels().size(); ++k) {
      Sink sink;
      schedule->walk(static_cast<int>(k), 0, sink);
      const std::string& kernel = schedule->kernels()[k].name;
      for (const TileOp& op : sink.ops) {
        const SourcePlace place = source_place(file, kernel, op);
        CAPTURE(kernel);
        CAPTURE(name_of(op.op));
        CAPTURE(name_of(op.tensor));
        CHECK(file.lines[static_cast<std::size_t>(place.kernel_first)].find("__global__") != std::string::npos);
        CHECK(place.lit.empty() == (op.op == Op::barrier));
        const bool shared = algorithm.quantizes;  // what its tensors have in common stands above the kernel
        for (int n : place.lit) CHECK(((shared || n >= place.kernel_first) && n < place.kernel_last));
      }
    }
  }
  CHECK(source_of("nonsense").lines.empty());
}

namespace {

/// A device that answers with the prediction's own numbers, twice the time.
struct FakeDevice : kernels::Device {
  kernels::DeviceInfo info() const override {
    kernels::DeviceInfo i;
    i.name = "NVIDIA H200";
    return i;
  }
  std::string why_unsupported(const Schedule& s) const override {
    return s.algorithm() == "flash_v1" ? "not in this build" : "";
  }
  AttentionOutputs run(const Schedule&, const AttentionInputs&) override { return {}; }
  kernels::Measurement measure(const Schedule& s, const kernels::MeasureOptions&) override {
    kernels::Measurement m;
    m.time_us = kernels::Measured<double>::of(7);
    m.sm_read_bytes = kernels::Measured<std::int64_t>::of(count(s).total.sm.sector_read);
    m.sm_write_bytes = m.hbm_read_bytes = m.hbm_write_bytes = kernels::Measured<std::int64_t>::unavailable("none");
    return m;
  }
  std::vector<kernels::LoggedOp> log(const Schedule&, const AttentionInputs&) override { return {}; }
};

}  // namespace

TEST_CASE("E03: after a lost device the cause is named, nothing measured stays, and the window goes on") {
  Settings s = small_settings();
  s.algorithms = {"flash_v2", "flash_v1"};
  bool lost = false;
  struct Losing final : FakeDevice {
    explicit Losing(bool& is_lost) : lost(is_lost) {}
    std::string why_unsupported(const Schedule&) const override { return ""; }
    kernels::Measurement measure(const Schedule& schedule, const kernels::MeasureOptions& options) override {
      if (lost) throw Error(ErrorKind::env, "the GPU session is lost; restart it");
      if (schedule.algorithm() == "flash_v2") {
        lost = true;
        throw Error(ErrorKind::env, "flash_v2: an illegal memory access; the GPU session is lost, restart it");
      }
      return FakeDevice::measure(schedule, options);
    }
    bool& lost;
  };
  Session session({small_machine()}, {}, {}, [&] { return std::make_unique<Losing>(lost); });
  session.request(s);
  session.request_live({s, 1});
  const Results& results = session.wait();
  REQUIRE(results.live);
  const std::string& told = results.live->message;
  CHECK(told.find("flash_v2: an illegal memory access") == 0);
  CHECK(told.find("flash_v1") == std::string::npos);  // it is not to blame
  CHECK(results.live->recording->rows.empty());
  s.problem = small_problem(64);  // simulating goes on
  session.request(s);
  CHECK(session.wait().whole[1]->prediction.value);
}

TEST_CASE("a live run stands before the recording; what cannot run says why; without a GPU the reason is shown") {
  Settings s = small_settings();
  s.algorithms = {"flash_v1", "flash_v2"};
  {
    Session session({small_machine()}, {}, {}, [] { return std::make_unique<FakeDevice>(); });
    session.request(s);
    session.request_live({s, 1});
    const Results& results = session.wait();
    REQUIRE(results.live);
    REQUIRE(results.live->recording);
    CHECK(results.live->recording->rows.size() == 1);
    CHECK(results.live->message.find("not in this build") != std::string::npos);
    const Comparison table = compare(s, "flash_v2", *results.whole[1], {*results.live->recording});
    CHECK(table.has_measurement);
    CHECK(table.measured_from.find("just now") != std::string::npos);
    CHECK(table.rows.back().measured.value == 7);
  }
  {
    Session session({small_machine()}, {}, {},
                    []() -> std::unique_ptr<kernels::Device> { throw Error(ErrorKind::env, "no driver"); });
    session.request_live({s, 1});
    CHECK(session.wait().live->message == "no driver");
  }
  {
    Session session({small_machine()}, {});
    session.request_live({s, 1});
    CHECK_FALSE(session.wait().live->message.empty());
  }
}
