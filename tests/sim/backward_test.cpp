// The backward pass: hand-made cases with known gradients, the reference against finite differences, and laws on random
// problems.
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "attention_cases.h"
#include "sim/compute/judge.h"
#include "sim/error.h"
#include "sim/schedule/algorithms.h"
#include "tests/support/rounds.h"

namespace flashscope {
namespace {

AttentionProblem small_backward(int seqlen_q, int seqlen_k, int head_dim) {
  AttentionProblem p = small_problem(seqlen_q, seqlen_k, head_dim);
  p.pass = Pass::backward;
  return p;
}

void check_values(const char* who, const Array& found, const std::vector<double>& right) {
  CAPTURE(who);
  REQUIRE(found.values.size() == right.size());
  for (std::size_t n = 0; n < right.size(); ++n) {
    CAPTURE(n);
    CAPTURE(found.values[n]);
    CAPTURE(right[n]);
    CHECK(std::fabs(found.values[n] - right[n]) <= 1e-5 * std::max(1.0, std::fabs(right[n])));
  }
}

struct Gradients {
  std::vector<double> d_q, d_k, d_v;
};

/// The reference, and every algorithm at several tile shapes, in fp64 and fp32.
void check_everywhere(AttentionProblem p, const AttentionInputs& inputs, const Gradients& right) {
  const auto check = [&](const char* who, const AttentionOutputs& out) {
    check_values(who, out.d_q, right.d_q);
    check_values(who, out.d_k, right.d_k);
    check_values(who, out.d_v, right.d_v);
  };
  check("reference", reference_attention(p, inputs));
  for (DType dtype : {DType::fp64, DType::fp32}) {
    p.dtype = dtype;
    for (const Algorithm& algorithm : algorithms(Pass::backward))
      for (TileShape tile : {TileShape{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {3, 2, 1}, {32, 32, 1}, {2, 1, 1, true}})
        check(algorithm.name.c_str(), compute(*make_schedule(algorithm.name, p, tile), inputs));
  }
}

TEST_CASE("N01: a row that the mask empties has gradients 0") {
  AttentionProblem p = small_backward(2, 2, 1);
  p.dense_mask = true;
  const AttentionInputs inputs{array_of(1, 2, 1, {1, 1}), array_of(1, 2, 1, {0, std::log(3.0)}),
                               array_of(1, 2, 1, {10, 20}), array_of(1, 2, 2, {0, 0, 1, 1}),
                               array_of(1, 2, 1, {1, 1})};
  check_everywhere(p, inputs, {{0, 2.0598980}, {-1.875, 1.875}, {0.25, 0.75}});
}

TEST_CASE("N08: rows of dO that differ, a scale, and the row term") {
  AttentionProblem p = small_backward(2, 2, 1);
  p.softmax_scale = 0.5;
  const AttentionInputs inputs{
      array_of(1, 2, 1, {1, 2}), array_of(1, 2, 1, {1, -1}), array_of(1, 2, 1, {1, 3}), {}, array_of(1, 2, 1, {1, 10})};
  check_everywhere(p, inputs, {{-0.3932239, -2.0998717}, {-2.2964836, 2.2964836}, {9.5390294, 1.4609706}});
  const AttentionOutputs out = compute(*make_schedule("flash_v2", p, {1, 1, 1}), inputs);
  check_values("O of the forward pass", out.o, {1.5378828, 1.2384058});
  check_values("LSE of the forward pass", out.lse, {0.8132617, 1.1269280});
}

TEST_CASE("N09: query heads add up in the dK and dV that they share") {
  AttentionProblem p = small_backward(1, 2, 1);
  p.heads = 2;
  const AttentionInputs inputs{array_of(2, 1, 1, {1, 2}), array_of(1, 2, 1, {0, std::log(3.0)}),
                               array_of(1, 2, 1, {1, 5}), {}, array_of(2, 1, 1, {1, 2})};
  check_everywhere(p, inputs, {{0.8239592, 0.7910008}, {-2.19, 2.19}, {0.45, 2.55}});
}

TEST_CASE("S01: causal with more queries than keys: rows without keys have gradients 0") {
  AttentionProblem p = small_backward(3, 1, 1);
  p.causal = true;
  const AttentionInputs inputs{
      array_of(1, 3, 1, {1, 2, 3}), array_of(1, 1, 1, {1}), array_of(1, 1, 1, {5}), {}, array_of(1, 3, 1, {1, 2, 4})};
  check_everywhere(p, inputs, {{0, 0, 0}, {0}, {4}});
}

TEST_CASE("S05: no keys, no queries, no batch: gradients 0 or nothing") {
  AttentionProblem p = small_backward(3, 0, 2);
  AttentionInputs inputs{Array(1, 3, 2), Array(1, 0, 2), Array(1, 0, 2), {}, Array(1, 3, 2)};
  inputs.d_out.values.assign(6, 1.0);
  check_everywhere(p, inputs, {std::vector<double>(6, 0.0), {}, {}});
  p = small_backward(0, 3, 2);
  check_everywhere(p, {Array(1, 0, 2), Array(1, 3, 2), Array(1, 3, 2), {}, Array(1, 0, 2)},
                   {{}, std::vector<double>(6, 0.0), std::vector<double>(6, 0.0)});
  p = small_backward(3, 3, 2);
  p.batch = 0;
  check_everywhere(p, {Array(0, 3, 2), Array(0, 3, 2), Array(0, 3, 2), {}, Array(0, 3, 2)}, {{}, {}, {}});
}

TEST_CASE("a backward pass without d_out, or with one of another shape, is refused") {
  const AttentionProblem p = small_backward(2, 3, 1);
  AttentionInputs inputs{Array(1, 2, 1), Array(1, 3, 1), Array(1, 3, 1), {}};
  for (int rows : {0, 3}) {
    inputs.d_out = Array(1, rows, 1);
    try {
      compute(*make_schedule("flash_v2", p), inputs);
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::input);
      CHECK(std::string(error.what()).find("d_out") == 0);
    }
  }
}

TEST_CASE("the reference's gradients are the slopes of sum(O * dO): central differences") {
  const std::uint32_t seed = fresh_seed();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 25; ++round) {
    AttentionProblem p = random_small_problem(random);
    p.pass = Pass::backward;
    p.seqlen_q = 1 + static_cast<int>(random() % 6);
    p.seqlen_k = 1 + static_cast<int>(random() % 6);
    p.head_dim = 1 + static_cast<int>(random() % 4);
    AttentionInputs inputs = random_inputs(p, random);
    const AttentionOutputs gradients = reference_attention(p, inputs);
    AttentionProblem forward = p;
    forward.pass = Pass::forward;
    const auto loss = [&] {
      const AttentionOutputs out = reference_attention(forward, inputs);
      double sum = 0;
      for (std::size_t n = 0; n < out.o.values.size(); ++n) sum += out.o.values[n] * inputs.d_out.values[n];
      return sum;
    };
    for (auto [array, gradient] :
         {std::pair{&inputs.q, &gradients.d_q}, {&inputs.k, &gradients.d_k}, {&inputs.v, &gradients.d_v}})
      for (std::size_t n = 0; n < array->values.size(); ++n) {
        constexpr double h = 1e-5;  // error h² · third derivative, and 1e-16 / h from rounding
        const double value = array->values[n];
        array->values[n] = value + h;
        const double up = loss();
        array->values[n] = value - h;
        const double down = loss();
        array->values[n] = value;
        CAPTURE(n);
        CHECK(std::fabs((up - down) / (2 * h) - gradient->values[n]) <= 1e-6);
      }
  }
}

TEST_CASE("two runs of the deterministic backward give the same bits") {
  std::mt19937 random(11);
  AttentionProblem p = small_backward(65, 65, 16);
  p.dtype = DType::bf16;
  p.causal = true;
  const AttentionInputs inputs = random_inputs(p, random);
  for (const Algorithm& algorithm : algorithms(Pass::backward)) {
    const auto schedule = make_schedule(algorithm.name, p, {16, 16, 1});
    const AttentionOutputs a = compute(*schedule, inputs), b = compute(*schedule, inputs);
    CHECK(a.d_q.values == b.d_q.values);
    CHECK(a.d_k.values == b.d_k.values);
    CHECK(a.d_v.values == b.d_v.values);
  }
}

TEST_CASE("in fp32, fp16 and bf16 the gradients obey the tolerance rule: 150 random problems") {
  const std::uint32_t seed = fresh_seed();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < rounds(150); ++round) {
    CAPTURE(round);
    AttentionProblem p = random_small_problem(random);
    p.pass = Pass::backward;
    // Of a handful of elements all orders together are few (judge.h).
    while (p.num_kv_heads() * std::min(p.seqlen_q, p.seqlen_k) * p.head_dim < 512) p.batch *= 2;
    p.dtype = round % 3 == 0 ? DType::fp32 : round % 3 == 1 ? DType::fp16 : DType::bf16;
    const AttentionInputs inputs = rounded(random_inputs(p, random), p.dtype);
    OutputJudge judge(p, inputs);
    const TileShape tile{1 + static_cast<int>(random() % 64), 1 + static_cast<int>(random() % 64), 1};
    CAPTURE(std::string(name_of(p.dtype)));
    for (const Algorithm& algorithm : algorithms(Pass::backward)) {
      CAPTURE(algorithm.name);
      const auto schedule = make_schedule(algorithm.name, p, tile);
      CHECK(judge.judge(*schedule, compute(*schedule, inputs)).passed());
    }
  }
}

}  // namespace
}  // namespace flashscope
