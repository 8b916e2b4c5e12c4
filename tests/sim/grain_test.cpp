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
#include "sim/schedule/algorithms.h"
#include "tests/support/random_problem.h"
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

void check_alike(const Long& l, const Prediction& coarse, const Prediction& whole) {
  const std::string name = l.algorithm;
  CAPTURE(name);
  CAPTURE(l.seqlen_q);
  CAPTURE(l.seqlen_k);
  CAPTURE(l.causal);
  CHECK(coarse.count.ops == whole.count.ops);
  CHECK(coarse.operations <= whole.operations);
  CHECK(off(coarse.hbm.read, whole.hbm.read) <= 0.01);
  CHECK(off(coarse.hbm.write + coarse.hbm_dirty_bytes, whole.hbm.write + whole.hbm_dirty_bytes) <= 0.01);
  CHECK(off(coarse.time, whole.time) <= 0.02);
  if (std::getenv("V"))
    MESSAGE(name << " " << l.seqlen_q << "x" << l.seqlen_k << std::string(l.causal ? " causal" : "")
                 << std::string(l.pass == Pass::backward ? " backward" : "") << ": steps " << whole.operations << " -> "
                 << coarse.operations << ", time " << 100 * off(coarse.time, whole.time) << " %, HBM reads "
                 << 100 * off(coarse.hbm.read, whole.hbm.read) << " %");
}

TEST_CASE("loops in larger steps: HBM reads within 1 %, time within 2 % of the run tile by tile") {
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
    check_alike(l, simulate_all(*schedule, machine, {}, grain_of(*schedule, machine, 64)), whole);
  }
}

TEST_CASE("wider blocks of scores: HBM reads within 1 %, time within 2 % of the run tile by tile") {
  Machine machine = test_machine();
  machine.l2_bytes.value = 8 << 20;
  constexpr Long problems[] = {
      {"three_pass", 8, 8, 2048, 2048, 64, false, Pass::forward},  // S: 64 MiB, eight times L2
      {"three_pass", 4, 4, 3072, 3072, 64, true, Pass::forward},
      {"three_pass", 16, 2, 512, 8192, 64, false, Pass::forward},
      {"three_pass", 16, 16, 1488, 2000, 128, false, Pass::forward},  // no multiple of the tile, nor of the block
      {"three_pass_tensor", 12, 12, 2048, 2048, 64, false, Pass::forward},
      {"three_pass", 8, 8, 2048, 2048, 64, false, Pass::backward},
  };
  for (const Long& l : problems) {
    const AttentionProblem p = problem_of(l);
    const auto schedule = make_schedule(l.algorithm, p);
    const Prediction whole = simulate_all(*schedule, machine, {});
    Grain grain;
    grain.score_tiles = score_tiles(*schedule, machine);
    CHECK(grain.score_tiles > 1);
    const Prediction wide = simulate_all(*schedule, machine, {}, grain);
    check_alike(l, wide, whole);
  }
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
    if (std::getenv("V"))
      MESSAGE(name << ": steps " << whole.operations << " -> " << part.operations << ", time "
                   << 100 * off(part.time, whole.time) << " %, HBM reads " << 100 * off(part.hbm.read, whole.hbm.read)
                   << " %");
  }
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
