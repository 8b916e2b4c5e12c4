// Laws of the timed run.
#include "sim/engine/engine.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <tuple>
#include <vector>

#include "sim/engine/program.h"
#include "sim/error.h"
#include "sim/schedule/algorithms.h"
#include "tests/support/random_problem.h"
#include "tests/support/rounds.h"
#include "tests/support/test_machine.h"

namespace flashscope {
namespace {

std::int64_t output_bytes(const AttentionProblem& p) {  // O, or dQ, dK and dV
  const std::int64_t rows = std::int64_t{p.seqlen_q} * p.num_heads() +
                            (p.pass == Pass::backward ? 2 * std::int64_t{p.seqlen_k} * p.num_kv_heads() : 0);
  return rows * p.head_dim * element_bytes(p.dtype);
}
std::int64_t input_bytes(const AttentionProblem& p) { return compulsory_bytes(p) - output_bytes(p); }

TEST_CASE("flash_v2 on the reference problem reads every input once and leaves its output dirty") {
  AttentionProblem p;
  p.heads = p.kv_heads = 1;
  p.seqlen_q = p.seqlen_k = 1024;
  p.dtype = DType::fp16;
  const Prediction run = simulate(*make_schedule("flash_v2", p, {64, 64, 1}), test_machine());
  CHECK(run.hbm == HbmTraffic{393'216, 0});
  CHECK(run.hbm_dirty_bytes == 135'168);
  CHECK(run.tensors[static_cast<int>(Tensor::K)].read == 131'072);
}

/// Rows of scores go through the CTAs of its softmax in turns.
bool takes_turns(const Algorithm& algorithm) { return std::string(algorithm.name).starts_with("three_pass"); }

TEST_CASE("laws of a run on random problems") {
  std::mt19937 random(20261129);
  const Machine machine = test_machine();
  for (int round = 0; round < rounds(60); ++round) {
    AttentionProblem p = random_problem(random);
    p.pass = round % 2 == 0 ? Pass::forward : Pass::backward;
    if (round % 3 == 0) add_sparsity(p, random);
    const TileShape tile = random_tile(p, random);
    for (const Algorithm& algorithm : algorithms(p.pass)) {
      const auto schedule = make_schedule(algorithm.name, p, tile);
      CAPTURE(algorithm.name);
      CAPTURE(round);
      bool fits = true;  // wide heads in large tiles do not, everywhere
      for (const KernelLaunch& kernel : schedule->kernels())
        fits = fits && occupancy(kernel.resources, machine).ctas_per_sm > 0;
      if (!fits) continue;
      TraceRecorder trace(1 << 20, std::int64_t{1} << 40);
      RunOptions options;
      options.trace = &trace;
      const Prediction run = simulate(*schedule, machine, options);

      // Never below the roofline, nor below the bytes that must move.
      CHECK(run.time >= roofline_bound(run.count, schedule->kernels().front().matrix_unit, run.hbm.read, machine));
      CHECK(run.hbm.read >= input_bytes(p));
      CHECK(run.hbm.write + run.hbm_dirty_bytes >= output_bytes(p));

      // Each CTA's spans follow each other without gap or overlap, and reasons add up to its time.
      std::map<std::tuple<int, std::int64_t>, std::vector<OpSpan>> by_cta;
      for (const OpSpan& span : trace.spans()) by_cta[{span.kernel, span.cta}].push_back(span);
      std::int64_t ctas = 0;
      for (const KernelLaunch& kernel : schedule->kernels()) ctas += kernel.ctas();
      CHECK(static_cast<std::int64_t>(by_cta.size()) == ctas);
      std::map<std::tuple<int, int, int>, std::vector<std::pair<Picoseconds, Picoseconds>>> by_slot;
      int gaps = 0, unlaunched = 0, overlaps = 0;
      for (auto& [cta, spans] : by_cta) {
        for (std::size_t n = 1; n < spans.size(); ++n) gaps += spans[n].begin != spans[n - 1].end;
        unlaunched += spans.front().reason != Reason::launch;
        by_slot[{spans[0].kernel, spans[0].sm, spans[0].slot}].emplace_back(spans.front().begin, spans.back().end);
      }
      for (auto& [slot, lives] : by_slot) {
        std::sort(lives.begin(), lives.end());
        for (std::size_t n = 1; n < lives.size(); ++n) overlaps += lives[n].first < lives[n - 1].second;
      }
      CHECK(gaps == 0);
      CHECK(unlaunched == 0);
      CHECK(overlaps == 0);
      for (const KernelPrediction& kernel : run.kernels) {
        Picoseconds sum = 0;
        for (Picoseconds reason : kernel.reasons) sum += reason;
        CHECK(sum == kernel.cta_time);
        CHECK(kernel.end <= run.time);
      }

      // The trace holds every operation of the schedule, once: its bytes are the counted ones.
      KernelCount traced;
      for (const OpSpan& span : trace.spans())
        if (span.reason != Reason::launch) add_op(*schedule, span.op, 1, traced);
      CHECK(traced.sm == run.count.sm);
      CHECK(traced.tensors == run.count.tensors);
      CHECK(traced.flops == run.count.flops);
      CHECK((takes_turns(algorithm) ? traced.ops >= run.count.ops : traced.ops == run.count.ops));

      // The same again, with nobody watching.
      const Prediction again = simulate(*schedule, machine);
      CHECK(again.time == run.time);
      CHECK(again.hbm == run.hbm);
    }
  }
}

TEST_CASE("runs beside each other, on any number of threads, say what one alone says") {
  std::mt19937 random(11);
  constexpr std::size_t kRuns = 12;
  std::vector<std::unique_ptr<Schedule>> schedules;
  for (std::size_t n = 0; n < kRuns; ++n) {
    AttentionProblem p = random_problem(random);
    p.pass = Pass::forward;
    schedules.push_back(make_schedule(n % 2 == 0 ? "flash_v2" : "three_pass", p));
  }
  const Machine machine = test_machine();
  const auto run_on = [&](std::size_t threads) {
    std::vector<Prediction> all(kRuns);
    std::atomic<std::size_t> next{0};
    const auto take_runs = [&] {
      for (std::size_t n = next++; n < kRuns; n = next++) all[n] = simulate(*schedules[n], machine);
    };
    std::vector<std::thread> others;
    for (std::size_t n = 1; n < threads; ++n) others.emplace_back(take_runs);
    take_runs();
    for (std::thread& other : others) other.join();
    return all;
  };
  const std::vector<Prediction> alone = run_on(1);
  for (std::size_t threads : {2, 5}) {
    const std::vector<Prediction> beside = run_on(threads);
    for (std::size_t n = 0; n < kRuns; ++n) {
      CHECK(beside[n].time == alone[n].time);
      CHECK(beside[n].hbm == alone[n].hbm);
      CHECK(beside[n].tensors == alone[n].tensors);
      CHECK(beside[n].hbm_dirty_bytes == alone[n].hbm_dirty_bytes);
      CHECK(beside[n].operations == alone[n].operations);
    }
  }
}

TEST_CASE("a folded program unfolds to the walk; what goes through the CTA in turns adds up to it") {
  class Recorder final : public OpSink {
   public:
    void op(const TileOp& op) override { ops.push_back(op); }
    std::vector<TileOp> ops;
  };
  std::mt19937 random(3);
  for (int round = 0; round < rounds(100); ++round) {
    AttentionProblem p = random_problem(random);
    p.head_dim = 64;  // rows of whole sectors, so that runs fold
    p.pass = round % 2 == 0 ? Pass::forward : Pass::backward;
    const TileShape tile = random_tile(p, random);
    for (const Algorithm& algorithm : algorithms(p.pass)) {
      const auto schedule = make_schedule(algorithm.name, p, tile);
      for (int k = 0; k < static_cast<int>(schedule->kernels().size()); ++k) {
        const std::int64_t ctas = schedule->kernels()[k].ctas();
        if (ctas == 0) continue;
        const std::int64_t cta = random() % ctas;
        Recorder walk, unfolded;
        schedule->walk(k, cta, walk);
        for (const Segment& segment : program_of(*schedule, k, cta))
          for (std::int64_t n = 0; n < segment.repeat.times; ++n)
            for (const TileOp& op : segment.ops) unfolded.op(advanced(op, segment.repeat, n, tile));
        CAPTURE(algorithm.name);
        if (!takes_turns(algorithm)) {
          CHECK(walk.ops == unfolded.ops);
          continue;
        }
        KernelCount whole, in_turns;
        for (const TileOp& op : walk.ops) add_op(*schedule, op, 1, whole);
        for (const TileOp& op : unfolded.ops) add_op(*schedule, op, 1, in_turns);
        CHECK(in_turns.tensors == whole.tensors);
        CHECK(in_turns.flops_executed == whole.flops_executed);
        CHECK(in_turns.exps == whole.exps);
      }
    }
  }
}

TEST_CASE("an L2 that holds everything reads compulsory bytes; a warm one reads nothing") {
  AttentionProblem p;
  p.heads = p.kv_heads = 4;
  p.seqlen_q = p.seqlen_k = 512;
  Machine machine = test_machine();
  machine.l2_bytes.value = 1 << 30;
  for (const char* name : {"flash_v1", "flash_v2", "three_pass"}) {
    const auto schedule = make_schedule(name, p, {64, 64, 1});
    CHECK(simulate(*schedule, machine).hbm.read == input_bytes(p));
    RunOptions warm;
    warm.start = Start::warm;
    CHECK(simulate(*schedule, machine, warm).hbm.read == 0);
  }
}

TEST_CASE("heads beyond the budget continue the line: bytes within 2 %, time within 5 %, counts exact") {
  AttentionProblem p;
  p.kv_heads = 96;
  p.heads = 192;
  p.seqlen_q = p.seqlen_k = 512;
  for (const std::string name : {"flash_v2", "three_pass"}) {
    const auto schedule = make_schedule(name, p, {64, 64, 1});
    const Prediction whole = simulate(*schedule, test_machine());
    RunOptions options;
    options.op_budget = whole.count.ops / 4;
    const Prediction part = simulate(*schedule, test_machine(), options);
    CAPTURE(name);
    CHECK(part.simulated_heads < whole.simulated_heads);
    CHECK(part.count.sm == whole.count.sm);
    CHECK(static_cast<double>(part.hbm.write + part.hbm_dirty_bytes) ==
          doctest::Approx(static_cast<double>(whole.hbm.write + whole.hbm_dirty_bytes)).epsilon(0.001));
    std::int64_t by_tensor = 0;
    for (const HbmTraffic& tensor : part.tensors) by_tensor += tensor.write;
    CHECK(by_tensor == part.hbm.write);
    CHECK(static_cast<double>(part.hbm.read) == doctest::Approx(static_cast<double>(whole.hbm.read)).epsilon(0.02));
    CHECK(static_cast<double>(part.time) == doctest::Approx(static_cast<double>(whole.time)).epsilon(0.05));
  }
}

TEST_CASE("rows of scores go through a CTA in turns: together all of S and P, and P begins before S ends") {
  struct Turned final : TraceSink {
    std::int64_t loaded = 0, stored = 0, softmaxed = 0, bytes_loaded = 0, bytes_stored = 0, loaded_at_first_store = 0;
    void span(const OpSpan& span) override {
      if (span.cta != 0 || span.kernel != 1) return;
      const std::int64_t elements = std::int64_t{span.op.rows} * span.op.cols;
      if (span.op.op == Op::softmax) softmaxed += elements;
      if (span.op.op == Op::load) loaded += elements, bytes_loaded += span.op.bytes;
      if (span.op.op != Op::store || span.op.tensor != Tensor::P) return;
      if (stored == 0) loaded_at_first_store = loaded;
      stored += elements, bytes_stored += span.op.bytes;
    }
  };
  for (const char* name : {"three_pass", "three_pass_naive"}) {
    CAPTURE(name);
    AttentionProblem p;
    p.heads = p.kv_heads = 1;
    p.seqlen_q = 64;
    p.seqlen_k = 1000;
    p.dtype = DType::bf16;
    const auto schedule = make_schedule(name, p, {32, 32, 1});
    Turned parts;
    RunOptions options;
    options.trace = &parts;
    simulate(*schedule, test_machine(), options);
    const bool is_naive = std::string(name) == "three_pass_naive";  // reads rows three times
    const std::int64_t elements = (is_naive ? 32 : 16) * 1000, scans = is_naive ? 3 : 1;
    CHECK(parts.loaded == scans * elements);
    CHECK(parts.bytes_loaded == scans * elements * 2);
    CHECK(parts.softmaxed == elements);
    CHECK(parts.stored == elements);
    CHECK(parts.bytes_stored == elements * 2);
    CHECK(parts.loaded_at_first_store < scans * elements);
  }
}

TEST_CASE("a grid that leaves SMs empty has its first eight CTAs on neighbours and the others dealt out evenly") {
  Machine machine = test_machine();
  machine.num_sms.value = 132;
  for (std::int64_t ctas : {1, 7, 8, 9, 16, 64, 131, 132, 500}) {
    CAPTURE(ctas);
    const std::int64_t first = std::min<std::int64_t>(ctas, 132);
    int before = -1, widest = 1, narrowest = 132;
    for (std::int64_t cta = 0; cta < first; ++cta) {
      const int sm = first_sm_of(cta, ctas, machine);
      CHECK(sm > before);  // one on each
      if (ctas >= 132 || cta < 8) CHECK(sm == cta);
      if (cta > 8 && ctas < 132) {
        widest = std::max(widest, sm - before);
        narrowest = std::min(narrowest, sm - before);
      }
      before = sm;
    }
    CHECK(before < 132);
    if (ctas > 9 && ctas < 132) CHECK(widest - narrowest <= 1);
    if (ctas > 132) CHECK(first_sm_of(132, ctas, machine) == 0);
  }
}

TEST_CASE("parts of dQ are added in order: a part waits for the one before, of its CTA and of the next key tile") {
  const Machine machine = test_machine();
  const Picoseconds trip = std::llround(machine.l2_far_latency_ns.value * 1e3);
  using Place = std::tuple<int, int, int>;  // head, key tile, query tile
  struct Adds final : TraceSink {
    void span(const OpSpan& span) override {
      if (span.op.adds) written[{span.op.head, span.op.j, span.op.i}] = span.end;
    }
    std::map<Place, Picoseconds> written;
  };
  AttentionProblem p;
  p.pass = Pass::backward;
  p.heads = p.kv_heads = 3;
  p.seqlen_q = p.seqlen_k = 1024;
  for (int head_dim : {64, 128}) {
    p.head_dim = head_dim;
    TileShape tile = make_schedule("flash_v3", p)->tile();
    Adds adds;
    RunOptions options;
    options.trace = &adds;
    const Prediction in_order = simulate(*make_schedule("flash_v3", p, tile), machine, options);
    CHECK(adds.written.size() == static_cast<std::size_t>(3 * num_tiles(1024, tile.br) * num_tiles(1024, tile.bc)));
    // A round trip to ask for the turn, one for the addition and one for each of two fences; then the place is free,
    // and the CTA of the key tile before may add.
    std::map<Place, Picoseconds> gone;
    for (auto part = adds.written.rbegin(); part != adds.written.rend(); ++part) {  // the last key tile first
      const auto& [head, j, i] = part->first;
      const auto turn = gone.find({head, j + 1, i}), at = gone.emplace(part->first, part->second).first;
      if (turn != gone.end()) at->second = std::max(at->second, turn->second);
      at->second += 4 * trip;
      const auto later = adds.written.find({head, j, i + 1});
      if (later != adds.written.end()) CHECK(later->second >= at->second);
    }
    tile.any_order = true;
    const Prediction any_order = simulate(*make_schedule("flash_v3", p, tile), machine);
    CHECK(any_order.time < in_order.time);
    CHECK(any_order.count.sm.read == in_order.count.sm.read);
  }
}

TEST_CASE("a CTA too large for the machine is refused with what it needs") {
  AttentionProblem p;
  p.head_dim = 1024;
  const auto schedule = make_schedule("flash_v2", p, {64, 64, 1});
  try {
    simulate(*schedule, test_machine());
    FAIL("not refused");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::unsupported);
    CHECK(std::string(error.what()).find("shared memory") != std::string::npos);
  }
}

TEST_CASE("a cancelled run stops") {
  AttentionProblem p;
  RunOptions options;
  options.progress = [](double) { return false; };
  CHECK_THROWS_AS(simulate(*make_schedule("flash_v2", p), test_machine(), options), Error);
}

}  // namespace
}  // namespace flashscope
