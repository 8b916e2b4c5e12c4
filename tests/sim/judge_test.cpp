// Yardsticks of several orders: what only adds up in another order is right, what is wrong stays wrong.
#include "sim/compute/judge.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "attention_cases.h"
#include "sim/compute/reordered.h"
#include "sim/schedule/algorithms.h"
#include "tests/support/random_problem.h"
#include "tests/support/rounds.h"

namespace flashscope {
namespace {

/// Few keys, large scores, any mask: few elements can err, so E is a matter of luck.
AttentionProblem unlucky_problem(std::mt19937& random) {
  AttentionProblem p = random_small_problem(random);
  p.dtype = DType::fp32;
  p.pass = random() % 2 == 0 ? Pass::forward : Pass::backward;
  p.seqlen_k = 1 + static_cast<int>(random() % 16);
  if (random() % 2 == 0) p.head_dim = 64 + static_cast<int>(random() % 160);
  if (random() % 2 == 0) p.softmax_scale = 1;
  p.dense_mask = random() % 4 == 0;
  // One row of three keys has six orders, and all of them are few (judge.h).
  while (p.num_heads() * p.seqlen_q * std::min(p.seqlen_k, p.head_dim) < 256) p.heads *= 2, p.kv_heads *= 2;
  if (random() % 16 == 0) p.seqlen_q = 0;
  if (random() % 16 == 0) p.seqlen_k = 0;
  if (random() % 32 == 0) p.batch = 0;
  if (!p.dense_mask && random() % 2 == 0) add_sparsity(p, random);
  return p;
}

AttentionOutputs in_order(const char* algorithm, const AttentionProblem& p, const AttentionInputs& inputs, int order) {
  const Reordered other(p, inputs, order);
  return other.restored(compute(*make_schedule(algorithm, other.problem(), {16, 16, 1}), other.inputs()));
}

/// How large what adds up to an output is. The sum may be much smaller: of a row with one weight that is nearly 1,
/// dS = P (dP - D) all but cancels, and what fp32 leaves of dQ is rounding.
AttentionOutputs sizes_of_terms(const AttentionProblem& p, const AttentionInputs& inputs) {
  const auto one = [](double size) { return array_of(1, 1, 1, {size}); };
  const double q = largest_magnitude(inputs.q), k = largest_magnitude(inputs.k), v = largest_magnitude(inputs.v),
               d_o = largest_magnitude(inputs.d_out), root = std::sqrt(p.head_dim), d_s = p.scale() * root * d_o * v;
  AttentionOutputs sizes;
  sizes.o = one(v);
  sizes.lse = one(1 + p.scale() * root * q * k);
  sizes.d_q = one(d_s * k);
  sizes.d_k = one(d_s * q);
  sizes.d_v = one(d_o);
  return sizes;
}

TEST_CASE("attention in another order of rows, keys and columns is the same attention") {
  const std::uint32_t seed = fresh_seed();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 60; ++round) {
    AttentionProblem p = unlucky_problem(random);
    p.dtype = DType::fp64;
    const AttentionInputs inputs = random_inputs(p, random);
    const Reordered other(p, inputs, 1 + round);
    const AttentionOutputs first = reference_attention(p, inputs),
                           again = other.restored(reference_attention(other.problem(), other.inputs()));
    for (Array AttentionOutputs::*of : {&AttentionOutputs::o, &AttentionOutputs::lse, &AttentionOutputs::d_q,
                                        &AttentionOutputs::d_k, &AttentionOutputs::d_v})
      CHECK(distance(first.*of, again.*of) <= 1e-10 * (1 + largest_magnitude(first.d_q)));
    if (p.seqlen_q > 20 && p.batch > 0) CHECK(other.inputs().q.values != inputs.q.values);
  }
}

TEST_CASE("what adds up in an order of its own is right, by the largest error of several orders") {
  const std::uint32_t seed = fresh_seed();
  MESSAGE("FLASHSCOPE_SEED=", seed);
  std::mt19937 random(seed);
  int more_than_one = 0;
  for (int round = 0; round < rounds(400); ++round) {
    const AttentionProblem p = unlucky_problem(random);
    const AttentionInputs inputs = rounded(random_inputs(p, random), p.dtype);
    OutputJudge judge(p, inputs);
    const auto schedule = make_schedule("flash_v2", p, {16, 16, 1});
    const JudgedOutputs judged = judge.judge(*schedule, in_order("flash_v2", p, inputs, kOrders + round));
    CAPTURE(round);
    CHECK(judged.passed());
    more_than_one += judged.orders > 1;
  }
  MESSAGE(more_than_one, " of ", rounds(400), " needed more than one order");
  CHECK(more_than_one < rounds(400) / 4);  // one order is a yardstick: the others are for the unlucky
}

TEST_CASE("what is wrong is wrong in every order") {
  const std::uint32_t seed = fresh_seed();
  CAPTURE(seed);
  std::mt19937 random(seed);
  int judged_wrong = 0;
  for (int round = 0; round < rounds(40); ++round) {
    AttentionProblem p = unlucky_problem(random);
    p.pass = Pass::backward;
    AttentionInputs inputs = rounded(random_inputs(p, random), p.dtype);
    OutputJudge judge(p, inputs);
    const auto schedule = make_schedule("flash_v2", p, {16, 16, 1});
    const AttentionOutputs right = compute(*schedule, inputs), terms = sizes_of_terms(p, inputs);
    for (Array AttentionOutputs::*of : {&AttentionOutputs::o, &AttentionOutputs::lse, &AttentionOutputs::d_q,
                                        &AttentionOutputs::d_k, &AttentionOutputs::d_v}) {
      AttentionOutputs wrong = right;
      auto& values = (wrong.*of).values;
      const double largest = std::max(largest_magnitude(judge.reference().*of), largest_magnitude(terms.*of));
      if (values.empty() || largest == 0 || !std::isfinite(largest)) continue;
      double& value = values[random() % values.size()];
      if (!std::isfinite(value)) continue;
      value += 1e-3 * largest;  // a thousandth: fp32 has 24 bits
      const JudgedOutputs judged = judge.judge(*schedule, wrong);
      CHECK_FALSE(judged.passed());
      CHECK(judged.orders == kOrders);
      ++judged_wrong;
    }
  }
  CHECK(judged_wrong > rounds(40));
}

}  // namespace
}  // namespace flashscope
