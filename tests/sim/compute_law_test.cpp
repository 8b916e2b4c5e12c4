// Laws of executing a schedule: whatever the problem, mask, tile and order, the numbers are those of plain attention.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "attention_cases.h"
#include "sim/compute/judge.h"
#include "sim/compute/reordered.h"
#include "sim/compute/rounding.h"
#include "sim/error.h"
#include "sim/schedule/algorithms.h"
#include "tests/support/random_problem.h"
#include "tests/support/rounds.h"

namespace flashscope {
namespace {

TileShape random_tile(std::mt19937& random) {
  const auto side = [&] { return 1 + static_cast<int>(random() % 64); };
  const int br = side(), bc = side(), splits = 1 + static_cast<int>(random() % 5);
  return {br, bc, 1, random() % 2 == 0, splits, false, random_page_size(random)};
}

TEST_CASE("in fp64 every algorithm gives the reference to rounding: 600 random problems") {
  const std::uint32_t seed = fresh_seed();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < rounds(600); ++round) {
    CAPTURE(round);
    const AttentionProblem p = random_small_problem(random);
    const AttentionInputs inputs = random_inputs(p, random);
    const AttentionOutputs reference = reference_attention(p, inputs);
    const TileShape tile = random_tile(random);
    for (const Algorithm& algorithm : algorithms()) {
      if (algorithm.quantizes) continue;  // fp8_test.cpp
      const AttentionOutputs out = compute(*make_schedule(algorithm.name, p, tile), inputs);
      CAPTURE(algorithm.name);
      CHECK(distance(out.o, reference.o) <= 1e-12 * std::max(1.0, largest_magnitude(inputs.v)));
      // A score is a sum of head_dim products, so its rounding scales with theirs, not with the LSE itself.
      CHECK(distance(out.lse, reference.lse) <=
            1e-12 * std::max(1.0, p.head_dim * largest_magnitude(inputs.q) * largest_magnitude(inputs.k)));
    }
  }
}

/// What flash_v1 may add to 2 E by its own storage rounding: it writes O in the dtype once per key tile, so Tc
/// roundings of at most half a unit of the largest |O| (never above the largest |V|) add up like a random walk, in √Tc
/// steps. Four times that walk is allowed: 4 · √Tc · ulp / 2.
double rewrite_allowance(const AttentionProblem& p, TileShape tile, const AttentionInputs& inputs) {
  const double rounds = num_tiles(p.seqlen_k, tile.bc);
  return 2 * std::sqrt(rounds) * ulp_of(p.dtype, largest_magnitude(inputs.v));
}

TEST_CASE("in fp32, fp16 and bf16 every algorithm obeys the tolerance rule: 600 random problems") {
  const std::uint32_t seed = fresh_seed();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < rounds(600); ++round) {
    CAPTURE(round);
    AttentionProblem p = random_small_problem(random);
    // Of a handful of elements all orders together are few (judge.h).
    while (p.num_heads() * p.seqlen_q * p.head_dim < 512) p.batch *= 2;
    p.dtype = round % 3 == 0 ? DType::fp32 : round % 3 == 1 ? DType::fp16 : DType::bf16;
    const AttentionInputs inputs = rounded(random_inputs(p, random), p.dtype);
    const AttentionOutputs reference = reference_attention(p, inputs);
    const AttentionOutputs plain = same_precision_attention(p, inputs);
    OutputJudge judge(p, inputs);
    const TileShape tile = random_tile(random);
    CAPTURE(std::string(name_of(p.dtype)));
    for (const Algorithm& algorithm : algorithms()) {
      if (algorithm.quantizes) continue;
      CAPTURE(algorithm.name);
      const auto schedule = make_schedule(algorithm.name, p, tile);
      const AttentionOutputs out = compute(*schedule, inputs);
      if (algorithm.name == "flash_v1") {  // it is its own yardstick elsewhere: here beside plain attention
        const Verification o = compare(out.o, reference.o, plain.o, p.dtype);
        CHECK(o.nonfinite == 0);
        double plain_o = largest_error(plain.o, reference.o), plain_lse = largest_error(plain.lse, reference.lse);
        const auto is_right = [&] {
          return o.max_abs <= 2 * plain_o + rewrite_allowance(p, tile, inputs) &&
                 compare(out.lse, reference.lse, plain_lse, DType::fp32).passed;
        };
        for (int order = 1; order < kOrders && !is_right(); ++order) {
          const Reordered other(p, inputs, order);
          const AttentionOutputs again = other.restored(same_precision_attention(other.problem(), other.inputs()));
          plain_o = std::max(plain_o, largest_error(again.o, reference.o));
          plain_lse = std::max(plain_lse, largest_error(again.lse, reference.lse));
        }
        CHECK(is_right());
        continue;
      }
      const JudgedOutputs judged = judge.judge(*schedule, out);
      CAPTURE(judged.o.worst);
      CAPTURE(judged.o.tolerance_used);
      CAPTURE(judged.lse.worst);
      CAPTURE(judged.lse.tolerance_used);
      CHECK(judged.passed());
    }
  }
}

TEST_CASE("key tiles backward give the same numbers to rounding") {
  const std::uint32_t seed = fresh_seed();
  CAPTURE(seed);
  std::mt19937 random(seed);
  int different = 0;
  for (int round = 0; round < rounds(100); ++round) {
    const AttentionProblem p = random_small_problem(random);
    const AttentionInputs inputs = random_inputs(p, random);
    TileShape tile = random_tile(random);
    for (const Algorithm& algorithm : algorithms()) {
      if (algorithm.quantizes) continue;  // P is rounded beside another maximum
      tile.backward_keys = false;
      const AttentionOutputs forward = compute(*make_schedule(algorithm.name, p, tile), inputs);
      tile.backward_keys = true;
      const AttentionOutputs backward = compute(*make_schedule(algorithm.name, p, tile), inputs);
      CAPTURE(algorithm.name);
      CHECK(distance(forward.o, backward.o) <= 1e-12 * std::max(1.0, largest_magnitude(inputs.v)));
      CHECK(distance(forward.lse, backward.lse) <= 1e-12 * std::max(1.0, largest_magnitude(forward.lse)));
      different += forward.o.values != backward.o.values;
    }
  }
  CHECK(different > 0);  // the option does change the order of additions
}

TEST_CASE("backward keys are visited last to first") {
  const AttentionProblem p = small_problem(2, 7, 1);
  std::mt19937 random(3);
  const AttentionInputs inputs = random_inputs(p, random);
  for (const char* name : {"flash_v1", "flash_v2"}) {
    std::vector<int> order;
    ComputeOptions options;
    options.after_tile = [&](const TileState& state) { order.push_back(state.j); };
    compute(*make_schedule(name, p, {2, 2, 1, true}), inputs, options);
    CHECK(order == std::vector<int>{3, 2, 1, 0});
  }
}

TEST_CASE("the yardstick is three_pass, bit for bit, whatever its tile") {
  const std::uint32_t seed = fresh_seed();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < rounds(60); ++round) {
    AttentionProblem p = random_small_problem(random);
    p.dtype = static_cast<DType>(random() % 5);
    const AttentionInputs inputs = random_inputs(p, random);
    TileShape tile = random_tile(random);
    tile.backward_keys = false;
    const AttentionOutputs yardstick = same_precision_attention(p, inputs);
    for (const char* name : {"three_pass", "three_pass_naive"}) {
      const AttentionOutputs out = compute(*make_schedule(name, p, tile), inputs);
      CHECK(out.o.values == yardstick.o.values);
      CHECK(out.lse.values == yardstick.lse.values);
    }
  }
}

TEST_CASE("outputs are values of the dtype, and statistics keep float32") {
  std::mt19937 random(5);
  for (DType dtype : {DType::fp32, DType::fp16, DType::bf16, DType::fp8}) {
    AttentionProblem p = small_problem(9, 20, 4);
    p.dtype = dtype;
    const AttentionInputs inputs = random_inputs(p, random);
    for (const Algorithm& algorithm : algorithms()) {
      const AttentionOutputs out = compute(*make_schedule(algorithm.name, p, {4, 8, 1}), inputs);
      const AttentionOutputs again = compute(*make_schedule(algorithm.name, p, {4, 8, 1}), rounded(inputs, dtype));
      CHECK(out.o.values == again.o.values);  // inputs are rounded on the way in
      int outside = 0, fine = 0;
      for (double value : out.o.values) outside += round_to(dtype, value) != value;
      for (double value : out.lse.values) outside += round_to(DType::fp32, value) != value;
      for (double value : out.lse.values) fine += round_to(dtype, value) != value;
      CHECK(outside == 0);
      if (dtype != DType::fp32) CHECK(fine > 0);
    }
  }
}

TEST_CASE("the observer changes nothing and sees un-normalised accumulators: acc / l of the last tile is O") {
  const std::uint32_t seed = fresh_seed();
  CAPTURE(seed);
  std::mt19937 random(seed);
  AttentionProblem p = random_small_problem(random);
  p.causal = false;
  p.window_left = p.window_right = -1;
  p.dense_mask = false;
  const AttentionInputs inputs = random_inputs(p, random);
  const TileShape tile{8, 8, 1};
  for (const char* name : {"flash_v1", "flash_v2"}) {
    const auto schedule = make_schedule(name, p, tile);
    const AttentionOutputs plain = compute(*schedule, inputs);
    int last_tiles = 0;
    double worst = 0;
    ComputeOptions options;
    options.after_tile = [&](const TileState& state) {
      if (state.j != num_tiles(p.seqlen_k, tile.bc) - 1) return;
      ++last_tiles;
      for (int row = 0; row < state.acc.rows; ++row)
        for (int d = 0; d < p.head_dim; ++d)
          worst = std::max(worst, std::fabs(state.acc.at(0, row, d) / state.l[static_cast<std::size_t>(row)] -
                                            plain.o.at(state.head, state.i * tile.br + row, d)));
    };
    const AttentionOutputs watched = compute(*schedule, inputs, options);
    CHECK(watched.o.values == plain.o.values);
    CHECK(watched.lse.values == plain.lse.values);
    CHECK(last_tiles == p.num_heads() * num_tiles(p.seqlen_q, tile.br));
    CHECK(worst == 0);
  }
}

}  // namespace
}  // namespace flashscope
