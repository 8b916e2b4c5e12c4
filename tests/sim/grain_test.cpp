// Long problems in larger steps: the same as tile by tile, within a bound.
#include "sim/engine/grain.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <string>

#include "sim/engine/blocks.h"
#include "sim/engine/cta_work.h"
#include "sim/engine/engine.h"
#include "sim/engine/program.h"
#include "sim/engine/run.h"
#include "sim/error.h"
#include "sim/schedule/algorithms.h"
#include "tests/support/random_problem.h"
#include "tests/support/rounds.h"
#include "tests/support/test_machine.h"

namespace flashscope {
namespace {

double off(std::int64_t found, std::int64_t whole) {
  return whole == 0 ? static_cast<double>(found) : std::fabs(static_cast<double>(found - whole)) / static_cast<double>(whole);
}

struct Long {
  const char* algorithm;
  int heads, kv_heads, seqlen_q, seqlen_k, head_dim;
  bool causal;
  Pass pass;
};

AttentionProblem problem_of(const Long& l) {
  AttentionProblem p;
  p.heads = l.heads;
  p.kv_heads = l.kv_heads;
  p.seqlen_q = l.seqlen_q;
  p.seqlen_k = l.seqlen_k;
  p.head_dim = l.head_dim;
  p.causal = l.causal;
  p.pass = l.pass;
  return p;
}

void check_alike(const Long& l, const Prediction& coarse, const Prediction& whole, double most) {
  const std::string name = l.algorithm;
  CAPTURE(name);
  CAPTURE(l.seqlen_q);
  CAPTURE(l.seqlen_k);
  CAPTURE(l.causal);
  CHECK(coarse.count.ops == whole.count.ops);
  CHECK(coarse.operations <= whole.operations);
  CHECK(off(coarse.hbm.read, whole.hbm.read) <= most);
  CHECK(off(coarse.hbm.write + coarse.hbm_dirty_bytes, whole.hbm.write + whole.hbm_dirty_bytes) <= most);
  CHECK(off(coarse.time, whole.time) <= 0.01);
}

std::string described(const std::string& name, const AttentionProblem& p, const Machine& machine) {
  return name + " " + name_of(p.pass) + " " + std::to_string(p.heads) + "/" + std::to_string(p.kv_heads) + " heads " +
         std::to_string(p.seqlen_q) + " x " + std::to_string(p.seqlen_k) + " head_dim " + std::to_string(p.head_dim) +
         (p.causal ? " causal" : "") + " L2 " + std::to_string(machine.l2_bytes.value / (1 << 20));
}

TEST_CASE("loops in the largest steps, compared with nothing: HBM reads within 0.5 %, time within 1 % of the run tile by tile") {
  Machine machine = test_machine();
  machine.l2_bytes.value = 16 << 20;  // reads by all SMs fall out beyond 8 MiB
  constexpr Long problems[] = {
      {"flash_v2", 4, 4, 4096, 16384, 64, false, Pass::forward},  // K and V of a head: 4 MiB
      {"flash_v2", 2, 2, 4096, 32768, 64, false, Pass::forward},  // 8 MiB
      {"flash_v2", 1, 1, 4096, 65536, 64, false, Pass::forward},  // 16 MiB
      {"flash_v2", 8, 2, 2048, 16384, 128, false, Pass::forward},
      {"flash_v2", 8, 8, 8192, 8192, 64, true, Pass::forward},
      {"flash_v2", 8, 2, 8192, 8192, 64, true, Pass::forward},
      {"flash_v2_tensor", 4, 4, 8192, 16384, 64, false, Pass::forward},
      {"flash_v2_tensor", 8, 8, 12288, 12288, 64, true, Pass::forward},
      {"flash_v1", 20, 20, 4096, 2048, 64, false, Pass::forward},
      {"flash_v2", 2, 2, 8192, 8192, 64, false, Pass::backward},
      {"flash_v2", 4, 2, 8192, 8192, 64, true, Pass::backward},
      {"split_kv", 64, 8, 1, 65536, 128, false, Pass::forward},
  };
  for (const Long& l : problems) {
    const auto schedule = make_schedule(l.algorithm, problem_of(l));
    const Prediction whole = simulate_all(*schedule, machine, {});
    check_alike(l, simulate_all(*schedule, machine, {}, grain_of(*schedule, machine, 64)), whole, 0.005);
  }
}

TEST_CASE("wider blocks of scores: HBM reads within 0.2 %, time within 1 % of the run tile by tile") {
  Machine machine = test_machine();
  machine.l2_bytes.value = 16 << 20;
  constexpr Long problems[] = {
      {"three_pass", 16, 16, 2048, 2048, 64, false, Pass::forward},  // S: 128 MiB, eight times L2
      {"three_pass", 8, 8, 3072, 3072, 64, true, Pass::forward},
      {"three_pass", 32, 4, 512, 8192, 64, false, Pass::forward},
      {"three_pass", 24, 24, 1488, 2000, 128, false, Pass::forward},  // no multiple of the tile, nor of the block
      {"three_pass_tensor", 20, 20, 2048, 2048, 64, false, Pass::forward},
      {"three_pass", 16, 16, 2048, 2048, 64, false, Pass::backward},
  };
  for (const Long& l : problems) {
    const AttentionProblem p = problem_of(l);
    const auto schedule = make_schedule(l.algorithm, p);
    const Prediction whole = simulate_all(*schedule, machine, {});
    Grain grain;
    grain.scores = score_blocks(*schedule, machine);
    CHECK((grain.scores.tiles > 1 || grain.scores.has_all_rows));
    const Prediction wide = simulate_all(*schedule, machine, {}, grain);
    check_alike(l, wide, whole, 0.002);
  }
}

TEST_CASE("heads that repeat are passed over: bytes within 0.2 %, time within 0.5 % of the run of all, counts exact") {
  Machine machine = test_machine();
  machine.l2_bytes.value = 8 << 20;
  constexpr Long problems[] = {
      {"three_pass", 48, 48, 1024, 1024, 64, false, Pass::forward},
      {"three_pass", 64, 16, 1000, 640, 128, true, Pass::forward},
      {"three_pass_tensor", 64, 64, 1024, 1024, 64, false, Pass::forward},
      {"three_pass_naive", 48, 48, 512, 512, 64, false, Pass::forward},
      {"flash_v2", 64, 8, 1024, 8192, 128, false, Pass::forward},
      {"flash_v2", 96, 96, 2048, 2048, 64, true, Pass::forward},
      {"flash_v2_tensor", 64, 64, 4096, 4096, 128, true, Pass::forward},
      {"split_kv", 512, 64, 4, 8192, 128, false, Pass::forward},
      {"three_pass", 32, 32, 768, 768, 64, false, Pass::backward},
  };
  int passed_over = 0;
  for (const Long& l : problems) {
    const auto schedule = make_schedule(l.algorithm, problem_of(l));
    Grain grain;
    const Prediction whole = simulate_all(*schedule, machine, {}, grain);
    grain.passes_over_heads = true;
    const Prediction part = simulate_all(*schedule, machine, {}, grain);
    check_alike(l, part, whole, 0.002);
    CHECK(off(part.time, whole.time) <= 0.005);
    CHECK(part.count.sm == whole.count.sm);
    CHECK(whole.simulated_heads == l.heads);
    passed_over += part.simulated_heads < l.heads;
    CHECK((part.simulated_heads < l.heads) == (part.operations < whole.operations));
    for (std::size_t k = 0; k < part.kernels.size(); ++k) {
      const KernelPrediction& kernel = part.kernels[k];
      HbmTraffic by_tensor;
      for (const HbmTraffic& tensor : kernel.tensors)
        by_tensor = {by_tensor.read + tensor.read, by_tensor.write + tensor.write};
      CHECK(by_tensor == kernel.hbm);
      Picoseconds by_reason = 0;
      for (Picoseconds reason : kernel.reasons) by_reason += reason;
      CHECK(by_reason == kernel.cta_time);
    }
  }
  CHECK(passed_over >= 5);
}

TEST_CASE("rows of scores stored as wholes fetch nothing, in wide blocks either; tiles of them fetch the same") {
  Machine machine = test_machine();
  machine.l2_bytes.value = 16 << 20;
  for (const char* name : {"three_pass", "three_pass_tensor"})
    for (int seqlen_k : {2001, 2056}) {  // rows of S end inside a sector, but the last ones'
      AttentionProblem p;
      p.heads = p.kv_heads = 17;
      p.seqlen_q = 2048;
      p.seqlen_k = seqlen_k;
      const auto schedule = make_schedule(name, p);
      Grain grain;
      grain.scores = score_blocks(*schedule, machine);
      CAPTURE(name);
      CAPTURE(seqlen_k);
      CHECK((grain.scores.tiles > 1 || grain.scores.has_all_rows));
      const Prediction whole = simulate_all(*schedule, machine, {}), wide = simulate_all(*schedule, machine, {}, grain);
      const auto read = [](const Prediction& run, int kernel, Tensor tensor) {
        return run.kernels[static_cast<std::size_t>(kernel)].tensors[static_cast<std::size_t>(tensor)].read;
      };
      CHECK(read(whole, 0, Tensor::S) > 0);  // sectors that two tiles share
      CHECK(off(read(wide, 0, Tensor::S), read(whole, 0, Tensor::S)) <= 0.002);
      CHECK(read(whole, 1, Tensor::P) == 0);
      CHECK(read(wide, 1, Tensor::P) == 0);
      CHECK(off(read(wide, 1, Tensor::S), read(whole, 1, Tensor::S)) <= 0.002);
      CHECK(off(read(wide, 2, Tensor::P), read(whole, 2, Tensor::P)) <= 0.002);
      CHECK(off(wide.time, whole.time) <= 0.01);
    }
}

TEST_CASE("around the budget, larger steps change no counter by more than 0.2 %, and time by at most 1 %") {
  std::mt19937 random(20261201);
  RunOptions options;
  options.op_budget = 100'000;
  options.settled_op_budget = 16 * options.op_budget;
  int below = 0, in_larger_steps = 0, one_by_one = 0;
  // Few are taken in larger steps. One draw must be, or nothing was tested: after the others it is looked for alone.
  for (int round = 0; round < rounds(60) || (in_larger_steps == 0 && round < 240);) {
    Machine machine = test_machine();
    machine.l2_bytes.value = pick(random, {4, 8, 16, 64}) << 20;
    AttentionProblem p;
    p.kv_heads = pick(random, {1, 2, 3, 8});
    p.heads = p.kv_heads * pick(random, {1, 1, 4});
    p.seqlen_k = pick(random, {4096, 8192, 10000, 16384, 32768});
    p.seqlen_q = random() % 4 == 0 ? p.seqlen_k : pick(random, {64, 1000, 2048, 4096});
    p.head_dim = pick(random, {32, 64, 96, 128, 256});
    p.causal = random() % 3 == 0;
    p.pass = random() % 4 == 0 ? Pass::backward : Pass::forward;
    const auto& list = algorithms(p.pass);
    const std::string name = list[random() % list.size()].name;
    if (std::int64_t{p.seqlen_q} * p.seqlen_k * p.heads > (1 << 28)) continue;
    const auto schedule = make_schedule(name, p);
    const std::int64_t ops = count(*schedule).total.ops;
    if (ops < options.op_budget / 2 || ops > options.op_budget * 6) continue;
    const Prediction run = simulate(*schedule, machine, options);
    if (run.simulated_heads < p.num_heads()) continue;  // said to be continued in a straight line
    ++round;
    (ops <= options.op_budget ? below : run.operations < ops ? in_larger_steps : one_by_one)++;
    if (round > rounds(60) && in_larger_steps == 0) continue;
    const Prediction whole = simulate_all(*schedule, machine, {});
    const std::string what = described(name, p, machine);
    CAPTURE(what);
    const std::int64_t written = whole.hbm.write + whole.hbm_dirty_bytes;
    CHECK(run.count.sm == whole.count.sm);
    CHECK(off(run.hbm.read, whole.hbm.read) <= 0.002);
    CHECK(static_cast<double>(std::abs(run.hbm.write - whole.hbm.write)) <= 0.002 * static_cast<double>(written));
    CHECK(static_cast<double>(std::abs(run.hbm_dirty_bytes - whole.hbm_dirty_bytes)) <= 0.002 * static_cast<double>(written));
    CHECK(off(run.time, whole.time) <= 0.01);
  }
  MESSAGE(below << " below the budget, " << in_larger_steps << " above in larger steps, " << one_by_one << " tile by tile");
  CHECK(in_larger_steps > 0);
}

TEST_CASE("beyond the least budget heads may be passed over: bytes within 0.5 %, time within 1 % of the run of all") {
  std::mt19937 random(20261202);
  RunOptions options;
  options.whole_op_budget = 20'000;
  int passed_over = 0, whole_runs = 0;
  for (int round = 0; round < rounds(60);) {
    Machine machine = test_machine();
    machine.l2_bytes.value = pick(random, {4, 8, 16, 64}) << 20;
    AttentionProblem p;
    p.kv_heads = pick(random, {4, 8, 32, 64});
    p.heads = p.kv_heads * pick(random, {1, 1, 1, 4});
    p.seqlen_k = pick(random, {512, 1024, 2000, 2048, 4096, 8192});
    p.seqlen_q = random() % 2 == 0 ? p.seqlen_k : pick(random, {64, 1000, 2048, 4096});
    p.head_dim = pick(random, {32, 64, 96, 128, 256});
    p.causal = random() % 3 == 0;
    p.pass = random() % 4 == 0 ? Pass::backward : Pass::forward;
    const auto& list = algorithms(p.pass);
    const std::string name = list[random() % list.size()].name;
    const auto schedule = make_schedule(name, p);
    const std::int64_t ops = count(*schedule).total.ops;
    if (ops < 2 * options.whole_op_budget || ops > 400'000) continue;
    ++round;
    const Prediction run = simulate(*schedule, machine, options);
    const Prediction whole = simulate_all(*schedule, machine, {});
    (run.simulated_heads < p.num_heads() ? passed_over : whole_runs)++;
    const std::string what = described(name, p, machine);
    CAPTURE(what);
    const std::int64_t written = whole.hbm.write + whole.hbm_dirty_bytes;
    CHECK(run.count.sm == whole.count.sm);
    CHECK(off(run.hbm.read, whole.hbm.read) <= 0.005);
    CHECK(off(run.hbm.write + run.hbm_dirty_bytes, written) <= 0.005);
    CHECK(off(run.time, whole.time) <= 0.01);
  }
  MESSAGE(passed_over << " with heads passed over, " << whole_runs << " as a whole");
  CHECK(passed_over > 0);
}

TEST_CASE("the first CTAs of each kernel continue the line: HBM bytes within 2 %, time within 2 %, counts exact") {
  Machine machine = test_machine();
  for (const char* name : {"three_pass", "three_pass_tensor"}) {
    AttentionProblem p;
    p.heads = p.kv_heads = 2;
    p.seqlen_q = p.seqlen_k = 8192;
    const auto schedule = make_schedule(name, p);
    const Grain grain = grain_of(*schedule, machine, 64);
    const Prediction whole = simulate_all(*schedule, machine, {}, grain);
    const Prediction part = simulate_some_ctas(*schedule, machine, {}, grain);
    CAPTURE(name);
    CHECK(part.operations < whole.operations);
    CHECK(part.simulated_heads == 0);
    CHECK(part.count.sm == whole.count.sm);
    CHECK(off(part.time, whole.time) <= 0.02);
    CHECK(off(part.hbm.read, whole.hbm.read) <= 0.02);
    CHECK(off(part.hbm.write + part.hbm_dirty_bytes, whole.hbm.write + whole.hbm_dirty_bytes) <= 0.02);
  }
}

TEST_CASE("who lends the time for a CTA's work is asked once a run of steps, and can end it") {
  const Machine machine = test_machine();
  const Speeds speeds(machine);
  AttentionProblem p;
  p.batch = p.heads = p.kv_heads = 1;  // flash_v1: one CTA with both loops
  p.seqlen_q = p.seqlen_k = 2048;
  p.head_dim = 64;
  TileShape tile;
  tile.br = tile.bc = 16;
  const auto schedule = make_schedule("flash_v1", p, tile);
  const BlockMap blocks(*schedule);
  CoreTimes times(*schedule, machine);
  times.start_kernel(0, 1);
  const Grain grain{{8}};
  CtaWorks works(*schedule, speeds, blocks, grain, times);
  std::size_t asked = 0;
  works.start_kernel(0, false, [&] { ++asked; });
  CHECK(works.of(0).work->runs.size() == asked);
  CHECK(asked > 1000);
  works.start_kernel(0, false, [&] { throw Error(ErrorKind::internal, "cancelled"); });
  CHECK_THROWS_AS(works.of(0), Error);
}

TEST_CASE("steps of several tiles cover each tile of each loop once, in order, between multiples of the step") {
  std::mt19937 random(20261130);
  const Machine machine = test_machine();
  const Speeds speeds(machine);
  for (int round = 0; round < 60; ++round) {
    AttentionProblem p = random_problem(random);
    p.head_dim = 64;  // rows of whole sectors, so that runs fold
    p.seqlen_q = 64 * pick(random, {1, 5, 9, 24});
    p.seqlen_k = 64 * pick(random, {1, 3, 16, 41});
    if (p.batch == 0) p.batch = 1;
    TileShape tile;
    tile.backward_keys = round % 2 == 1;
    const auto schedule = make_schedule("flash_v2", p, tile);
    const BlockMap blocks(*schedule);
    CoreTimes times(*schedule, machine);
    times.start_kernel(0, 1);
    const Grain grain{{pick(random, {2, 4, 8})}}, single;
    CtaWorks coarse(*schedule, speeds, blocks, grain, times), fine(*schedule, speeds, blocks, single, times);
    coarse.start_kernel(0, false);
    fine.start_kernel(0, false);
    const std::int64_t cta = static_cast<std::int64_t>(random() % static_cast<unsigned>(schedule->kernels()[0].ctas()));
    // The blocks that a CTA loads of K, in its order; those of one step in ascending order.
    const auto loaded = [&](CtaWorks& works) {
      std::vector<std::int64_t> all;
      const PlacedWork placed = works.of(cta);
      for (const StepRun& run : placed.work->runs)
        for (std::int64_t n = 0; n < run.times; ++n)
          for (const Step& step : run.steps) {
            if (step.kind != Step::Kind::load || step.tensor != Tensor::K) continue;
            std::vector<std::int64_t> of_step;
            step.blocks.for_each(n * step.block_step + placed.kv_heads * step.kv_head_step,
                                 [&](std::int64_t block) { of_step.push_back(block); });
            CHECK(static_cast<int>(of_step.size()) == step.tiles);
            if (tile.backward_keys) std::reverse(of_step.begin(), of_step.end());
            all.insert(all.end(), of_step.begin(), of_step.end());
          }
      return all;
    };
    CHECK(loaded(coarse) == loaded(fine));
  }
}

}  // namespace
}  // namespace flashscope
