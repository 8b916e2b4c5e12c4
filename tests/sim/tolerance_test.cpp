// The tolerance rule: it lets correct rounding pass, and nothing that is not a number.
#include "sim/compute/tolerance.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "attention_cases.h"
#include "sim/error.h"
#include "sim/schedule/algorithms.h"

namespace flashscope {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Array row(std::vector<double> values) {
  const int cols = static_cast<int>(values.size());
  return array_of(1, 1, cols, std::move(values));
}

TEST_CASE("bf16: an error of a quarter at one hundred is correct rounding") {
  AttentionProblem p = small_problem(1, 2, 1);
  p.dtype = DType::bf16;
  const AttentionInputs inputs{Array(1, 1, 1), Array(1, 2, 1), array_of(1, 2, 1, {100, 100.5}), {}};
  const AttentionOutputs reference = reference_attention(p, inputs);
  const AttentionOutputs plain = same_precision_attention(p, inputs);
  CHECK(reference.o.values[0] == 100.25);
  for (double rounded_output : {100.0, 100.5})
    CHECK(compare(row({rounded_output}), reference.o, plain.o, DType::bf16).passed);
  CHECK_FALSE(compare(row({102.5}), reference.o, plain.o, DType::bf16).passed);
}

TEST_CASE("bf16: zero is not an answer where 0.0015 is right") {
  AttentionProblem p = small_problem(1, 2, 1);
  p.dtype = DType::bf16;
  const AttentionInputs inputs =
      rounded({Array(1, 1, 1), Array(1, 2, 1), array_of(1, 2, 1, {0.001, 0.002}), {}}, p.dtype);
  const AttentionOutputs reference = reference_attention(p, inputs);
  const AttentionOutputs plain = same_precision_attention(p, inputs);
  const Verification zero = compare(row({0.0}), reference.o, plain.o, DType::bf16);
  CHECK_FALSE(zero.passed);
  CHECK(zero.tolerance_used > 1);
  CHECK(zero.first_bad == 0);
  CHECK(compare(plain.o, reference.o, plain.o, DType::bf16).passed);
}

TEST_CASE("NaN and unexpected infinities fail, wherever they stand") {
  const Array right = row({1, 2, 3, 4});
  for (double bad : {kNaN, kInfinity, -kInfinity})
    for (std::size_t place = 0; place < 4; ++place) {
      Array output = right;
      output.values[place] = bad;
      const Verification v = compare(output, right, right, DType::fp32);
      CHECK_FALSE(v.passed);
      CHECK(v.nonfinite == 1);
      CHECK(v.first_nonfinite == static_cast<std::int64_t>(place));
      CHECK(v.first_bad == static_cast<std::int64_t>(place));
      CHECK(v.tolerance_used == kInfinity);
      CHECK(v.max_abs == 0);  // of the others
      CHECK(v.worst == "head 0, row 0, column " + std::to_string(place));
    }
  const Verification all = compare(row({kNaN}), row({1}), row({1}), DType::fp32);
  CHECK_FALSE(all.passed);
  CHECK(std::isnan(all.max_abs));
  CHECK(std::isnan(all.mean_abs));
}

TEST_CASE("a yardstick that is not finite does not open the gate") {
  for (double bad : {kNaN, kInfinity}) {
    CHECK_FALSE(compare(row({5, 2}), row({1, 2}), row({bad, 2}), DType::fp32).passed);
    CHECK_FALSE(compare(row({bad, 2}), row({1, 2}), row({bad, 2}), DType::fp32).passed);
  }
}

TEST_CASE("where the reference is infinite or NaN, only the same passes") {
  CHECK(compare(row({-kInfinity, 1}), row({-kInfinity, 1}), row({-kInfinity, 1}), DType::fp32).passed);
  CHECK(compare(row({kNaN}), row({kNaN}), row({kNaN}), DType::fp32).passed);
  for (double bad : {kInfinity, kNaN, -1e30, 0.0}) {
    const Verification v = compare(row({bad}), row({-kInfinity}), row({-kInfinity}), DType::fp32);
    CHECK_FALSE(v.passed);
    CHECK(v.tolerance_used == kInfinity);
  }
  CHECK_FALSE(compare(row({0}), row({kNaN}), row({kNaN}), DType::fp32).passed);
}

TEST_CASE("the tolerance is 2 E + 2 ulp of the dtype at the reference") {
  const Array right = row({1, 4}), plain = row({1.25, 4});  // E = 0.25
  const double ulp = std::ldexp(1.0, -10);                  // fp16 at 1
  CHECK(compare(row({1.5 + 2 * ulp, 4}), right, plain, DType::fp16).passed);
  CHECK_FALSE(compare(row({1.5 + 2.01 * ulp, 4}), right, plain, DType::fp16).passed);
  CHECK(compare(row({1, 4.5 + 8 * ulp}), right, plain, DType::fp16).passed);
  const Verification v = compare(row({1, 5}), right, plain, DType::fp16);
  CHECK_FALSE(v.passed);
  CHECK(v.max_abs == 1);
  CHECK(v.mean_abs == 0.5);
  CHECK(v.first_bad == 1);
  CHECK(v.worst == "head 0, row 0, column 1");
}

TEST_CASE("outputs of another shape are not compared") {
  CHECK_THROWS_AS(compare(row({1}), row({1, 2}), row({1, 2}), DType::fp32), Error);
  CHECK_THROWS_AS(compare(row({1, 2}), row({1, 2}), row({1}), DType::fp32), Error);
}

TEST_CASE("an empty tensor passes: there is nothing that could be wrong") {
  const Verification v = compare(Array(1, 0, 4), Array(1, 0, 4), Array(1, 0, 4), DType::fp16);
  CHECK(v.passed);
  CHECK(v.max_abs == 0);
}

}  // namespace
}  // namespace flashscope
