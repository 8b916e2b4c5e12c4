// Scenes: a function of (trace, t) alone, that ends at the counted totals.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "sim/count/count.h"
#include "sim/schedule/algorithms.h"
#include "support.h"
#include "viz/core/scene.h"
#include "viz/core/window_words.h"

using namespace flashscope;
using namespace flashscope::viz;
using namespace flashscope::viz::testing;

namespace {

std::vector<Picoseconds> sample_times(const StageTrace& trace, std::mt19937& random, int count) {
  std::vector<Picoseconds> times = {0, trace.duration() / 2, trace.duration(), trace.duration() + 1};
  std::uniform_int_distribution<Picoseconds> any(0, std::max<Picoseconds>(1, trace.duration()));
  for (int n = 0; n < count; ++n) times.push_back(any(random));
  return times;
}

const TileMap& map_named(const Scene& scene, Tensor tensor) {
  return *std::find_if(scene.maps.begin(), scene.maps.end(), [&](const TileMap& m) { return m.tensor == tensor; });
}

}  // namespace

TEST_CASE("a scene at the end equals the counted totals and the closed form, for every algorithm and start state") {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (const Algorithm& algorithm : algorithms())
    for (Start start : {Start::cold, Start::warm, Start::cold_each_kernel})
      for (std::int64_t l2 : {60'000'000, 40'000}) {
        const AttentionProblem problem = random_problem(random);
        CAPTURE(algorithm.name);
        CAPTURE(name_of(start));
        CAPTURE(problem.seqlen_q);
        CAPTURE(problem.seqlen_k);
        // Construction checks the replayed cache against the engine's own HBM bytes.
        const auto trace = trace_stage(algorithm.name, problem, {16, 16, 1, false, 3}, small_machine(l2), start);
        const Scene end = make_scene(*trace, trace->duration(), 2);
        const Count counted = count(trace->schedule());
        CHECK(end.finished);
        CHECK(end.moved.sm_read == counted.total.sm.read);
        CHECK(end.moved.sm_write == counted.total.sm.write);
        CHECK(end.moved.sm_read == trace->closed_form().sm_read_bytes);
        CHECK(end.moved.sm_write == trace->closed_form().sm_write_bytes);
        CHECK(end.moved.hbm_read == trace->prediction().hbm.read);
        CHECK(end.moved.hbm_write == trace->prediction().hbm.write);
        CHECK(end.busy_sms == 0);
        CHECK(end.in_flight.empty());
      }
}

TEST_CASE("split_kv: maps of what the splits leave show those of the drawn head, one below the other") {
  AttentionProblem p;
  p.heads = 4;
  p.kv_heads = 2;
  p.seqlen_q = 1;
  p.seqlen_k = 256;
  const auto trace = trace_stage("split_kv", p, {2, 16, 1, false, 3}, small_machine(60'000'000), Start::cold);
  const Scene end = make_scene(*trace, trace->duration(), 2);
  for (Tensor tensor : {Tensor::O_split, Tensor::LSE_split}) {
    const TileMap& map = map_named(end, tensor);
    CHECK(map.down == 3);
    CHECK(map.across == 1);
    for (const TileCell& cell : map.cells) CHECK(cell.state == TileState::written);
  }
  const Scene first = make_scene(*trace, trace->prediction().kernels[0].end / 2, 2);
  REQUIRE(first.kernel == 0);
  for (const auto& sm : first.sms)
    for (const auto& cta : sm.ctas) CHECK(cta.head % 2 == 0);  // each works for both heads of a group
}

TEST_CASE("a map of 4096 tiles a side is cells of several tiles: bytes and ends are those of the tiles") {
  AttentionProblem p = small_problem(4096, 1);
  p.window_left = p.window_right = 0;
  const auto trace = trace_stage("flash_v2", p, {1, 1, 1}, small_machine(), Start::cold);
  const TileGrid& scores = trace->score_grid();
  CHECK(scores.lump == 4096 / kMapSide);
  CHECK(scores.down == kMapSide);
  const Scene end = make_scene(*trace, trace->duration(), 2);
  CHECK(end.moved == trace->moved_in_all());
  for (int n = 0; n < kMapSide; ++n) {
    CHECK(end.score_visits.at(n, n).state == TileState::read);
    if (n > 0) CHECK(end.score_visits.at(n, n - 1).state == TileState::skipped);
    CHECK(map_named(end, Tensor::O).at(n, 0).state == TileState::written);
  }
  const Scene half = make_scene(*trace, trace->duration() / 2, 2);
  int reached = 0;
  for (int n = 0; n < kMapSide; ++n) reached += half.score_visits.at(n, n).state != TileState::untouched;
  CHECK(reached > kMapSide / 4);
  CHECK(reached < kMapSide);
}

TEST_CASE("a scene is a function of the trace and the time only") {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (const char* name : {"three_pass", "flash_v1", "flash_v2"}) {
    const auto trace = trace_stage(name, small_problem(), {16, 32, 1}, small_machine(), Start::cold);
    const auto again = trace_stage(name, small_problem(), {16, 32, 1}, small_machine(), Start::cold);
    const std::vector<Picoseconds> times = sample_times(*trace, random, 30);
    std::vector<Scene> forward, backward;
    for (auto t = times.begin(); t != times.end(); ++t) forward.push_back(make_scene(*trace, *t, 2));
    for (auto t = times.rbegin(); t != times.rend(); ++t) backward.push_back(make_scene(*again, *t, 2));
    std::reverse(backward.begin(), backward.end());
    CHECK(forward == backward);
  }
}

TEST_CASE("no CTA ever holds more tiles than the fullest of its kernel, which the trace keeps") {
  for (const Pass pass : {Pass::forward, Pass::backward})
    for (const Algorithm& algorithm : algorithms(pass)) {
      AttentionProblem problem = small_problem(256, 2);
      problem.pass = pass;
      problem.head_dim = 64;
      CAPTURE(algorithm.name);
      const auto trace =
          trace_stage(algorithm.name, problem, algorithm.default_tile(problem), small_machine(), Start::cold);
      REQUIRE(trace->fullest_ctas().size() == trace->prediction().kernels.size());
      CHECK(&trace->fullest_ctas() == &trace->fullest_ctas());  // kept, not followed again
      for (const SlotTrack& track : trace->tracks())
        for (std::size_t n = track.first; n < track.last; ++n) {
          const OpSpan& span = trace->spans()[n];
          const CtaView& fullest = trace->fullest_ctas()[static_cast<std::size_t>(span.kernel)];
          CHECK(follow_cta(*trace, span, span.end).tiles.size() <= fullest.tiles.size());
        }
    }
}

TEST_CASE("counters only grow, and never pass their totals") {
  for (const char* name : {"three_pass", "flash_v2"}) {
    const auto trace = trace_stage(name, small_problem(), {16, 16, 1}, small_machine(40'000), Start::cold);
    Moved before;
    for (int step = 0; step <= 200; ++step) {
      const Moved now = make_scene(*trace, trace->duration() * step / 200, 2).moved;
      CHECK(now.sm_read >= before.sm_read);
      CHECK(now.sm_write >= before.sm_write);
      CHECK(now.hbm_read >= before.hbm_read);
      CHECK(now.hbm_write >= before.hbm_write);
      before = now;
    }
    CHECK(before == trace->moved_in_all());
  }
}

TEST_CASE("only what the schedule keeps has a map: flash_v2 has no S and P in HBM") {
  const auto flash = trace_stage("flash_v2", small_problem(), {16, 16, 1}, small_machine(), Start::cold);
  const auto three = trace_stage("three_pass", small_problem(), {16, 16, 1}, small_machine(), Start::cold);
  const Scene a = make_scene(*flash, 0, 1), b = make_scene(*three, 0, 1);
  const auto has = [](const Scene& scene, Tensor tensor) {
    return std::any_of(scene.maps.begin(), scene.maps.end(), [&](const TileMap& m) { return m.tensor == tensor; });
  };
  CHECK_FALSE(has(a, Tensor::S));
  CHECK_FALSE(has(a, Tensor::P));
  CHECK(has(b, Tensor::S));
  CHECK(has(b, Tensor::P));
  CHECK(a.score_visits.down == 6);
  CHECK(b.score_visits.cells.empty());
}

TEST_CASE("skipped tiles are those in which the mask keeps no pair; the others end up done") {
  const AttentionProblem problem = small_problem(100, 1, true);
  const auto trace = trace_stage("flash_v2", problem, {16, 16, 1}, small_machine(), Start::cold);
  const Scene end = make_scene(*trace, trace->duration(), 1);
  for (int i = 0; i < end.score_visits.down; ++i)
    for (int j = 0; j < end.score_visits.across; ++j) {
      const Range rows = {i * 16, std::min(100, i * 16 + 16)}, keys = {j * 16, std::min(100, j * 16 + 16)};
      const bool kept = kept_pairs_in(problem.mask(), rows, keys) > 0;
      CHECK(end.score_visits.at(i, j).state == (kept ? TileState::read : TileState::skipped));
    }
}

TEST_CASE("at the end every output tile is written and, where L2 holds all, still there and dirty") {
  const auto trace = trace_stage("three_pass", small_problem(), {16, 16, 1}, small_machine(), Start::cold);
  REQUIRE(trace->prediction().hbm.write == 0);
  const Scene end = make_scene(*trace, trace->duration(), 1);
  for (Tensor tensor : {Tensor::S, Tensor::P, Tensor::O})
    for (const TileCell& cell : map_named(end, tensor).cells) {
      CHECK(cell.state == TileState::written);
      CHECK(cell.in_l2);
      CHECK(cell.dirty);
    }
  for (const TileCell& cell : map_named(end, Tensor::Q).cells) {
    CHECK(cell.state == TileState::read);
    CHECK(cell.in_l2);
    CHECK_FALSE(cell.dirty);
  }
  const Scene start = make_scene(*trace, 0, 1);
  for (const TileMap& map : start.maps)
    for (const TileCell& cell : map.cells) CHECK_FALSE(cell.in_l2);
}

TEST_CASE("an L2 that is too small loses tiles") {
  const auto trace = trace_stage("three_pass", small_problem(), {16, 16, 1}, small_machine(20'000), Start::cold);
  REQUIRE(trace->prediction().hbm.write > 0);
  const Scene end = make_scene(*trace, trace->duration(), 1);
  const auto held = [&](Tensor tensor) {
    const auto& cells = map_named(end, tensor).cells;
    return std::count_if(cells.begin(), cells.end(), [](const TileCell& c) { return c.in_l2; });
  };
  CHECK(held(Tensor::S) == 0);  // read last in the second kernel, long gone
}

TEST_CASE("a flash_v2 CTA adds one key tile after the other to acc and updates m and l once each") {
  const auto trace = trace_stage("flash_v2", small_problem(96, 1), {32, 16, 1}, small_machine(), Start::cold);
  double acc = 0;
  int updates = 0;
  for (Picoseconds t : trace->boundaries()) {
    const Scene scene = make_scene(*trace, t, 1);
    if (scene.sms[0].ctas.empty()) continue;
    const CtaView& cta = scene.sms[0].ctas[0];
    CHECK(cta.acc_total == 6);
    CHECK(cta.acc_done >= acc);
    CHECK(cta.rows_updates >= updates);
    acc = cta.acc_done;
    updates = cta.rows_updates;
    for (const HeldTile& tile : cta.tiles) CHECK(tile.filled <= 1);
  }
  CHECK(acc == 6);
  CHECK(updates == 6);
}

TEST_CASE("tile names are the paper's") {
  const auto trace = trace_stage("three_pass", small_problem(96, 1), {16, 16, 1}, small_machine(), Start::cold);
  std::vector<std::string> names;
  for (const OpSpan& span : trace->spans())
    if (span.op.op == Op::load)
      for (const TileGrid& grid : trace->grids())
        if (grid.tensor == span.op.tensor) names.push_back(tile_name(grid, span.op));
  for (const char* name : {"Q[0]", "K[5]", "S[3,:]", "P[2,4]", "V[1]"})
    CHECK(std::find(names.begin(), names.end(), name) != names.end());
}

TEST_CASE("the running maximum and sum are m and l, as in the papers: M is the size of their SRAM") {
  const auto trace = trace_stage("flash_v1", small_problem(64, 1), {16, 16, 1}, small_machine(), Start::cold);
  std::vector<std::string> names;
  for (const CtaView& cta : trace->fullest_ctas())
    for (const HeldTile& tile : cta.tiles) names.push_back(tile.name.substr(0, tile.name.find('[')));
  for (const char* name : {"m", "l"}) CHECK(std::count(names.begin(), names.end(), name) == 1);
  for (const char* name : {"M", "L"}) CHECK(std::count(names.begin(), names.end(), name) == 0);
  CHECK(name_on_stage(Tensor::K_fp8) == "K fp8");
}

TEST_CASE("an empty problem has a scene too") {
  AttentionProblem problem = small_problem();
  problem.seqlen_q = 0;
  const auto trace = trace_stage("flash_v2", problem, {16, 16, 1}, small_machine(), Start::cold);
  const Scene scene = make_scene(*trace, 0, 2);
  CHECK(scene.moved == Moved{});
  CHECK(scene.finished);
}

TEST_CASE("backward: the stage's bytes are the engine's, for every algorithm, mask and cache") {
  const unsigned seed = std::random_device{}();
  INFO("seed ", seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 12; ++round)
    for (const Algorithm& algorithm : algorithms(Pass::backward)) {
      AttentionProblem p = random_problem(random);
      if (round % 3 == 0) p = small_problem(192, 2, round % 2 == 1);  // whole tiles: runs of them are folded
      p.pass = Pass::backward;
      CAPTURE(algorithm.name);
      CAPTURE(p.seqlen_q);
      const auto trace =
          trace_stage(algorithm.name, p, {64, 32, 1}, small_machine(round % 2 ? 60'000'000 : 100'000), Start::cold);
      const Scene end = make_scene(*trace, trace->duration(), 2);
      CHECK(end.moved.hbm_read == trace->prediction().hbm.read);
      for (int step = 0; step < 10; ++step) CHECK_NOTHROW(make_scene(*trace, trace->duration() * step / 10, 2));
    }
}
