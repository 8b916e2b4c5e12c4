// flash_v3_fp8 on numbers: its scales, its rotation, the order of its keys, and what it makes of attention.
#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "attention_cases.h"
#include "sim/compute/quantize.h"
#include "sim/compute/rounding.h"
#include "sim/schedule/algorithms.h"
#include "sim/schedule/fp8_rung.h"
#include "tests/support/outlier_inputs.h"
#include "tests/support/rounds.h"

namespace flashscope {
namespace {

AttentionOutputs in_fp8(const AttentionProblem& p, const AttentionInputs& inputs, TileShape tile = {0, 0, 0},
                        bool rotate = true) {
  ComputeOptions options;
  options.rotate = rotate;
  return compute(*make_schedule("flash_v3_fp8", p, tile), inputs, options);
}

TEST_CASE("a scale is the least power of two under which a tile does not saturate") {
  for (int exponent = -50; exponent <= 118; ++exponent) {
    const float unit = std::ldexp(1.0f, exponent);
    CHECK(fp8_scale(448 * unit) == unit);
    CHECK(fp8_scale(std::nextafter(448 * unit, INFINITY)) == 2 * unit);
    CHECK(fp8_scale(225 * unit) == unit);
  }
  CHECK(fp8_scale(0) == std::ldexp(1.0f, -60));
  CHECK(fp8_scale(1e-38f) == std::ldexp(1.0f, -60));
}

TEST_CASE("the rotation keeps dot products, width times, and spreads one element over all columns") {
  std::mt19937 random(fresh_seed());
  for (int width : {64, 128, 256}) {
    std::vector<double> a(static_cast<std::size_t>(width)), b = a, one = a;
    std::normal_distribution<double> normal;
    double dot = 0, rotated = 0;
    for (int n = 0; n < width; ++n) {
      const auto k = static_cast<std::size_t>(n);
      a[k] = normal(random);
      b[k] = normal(random);
      dot += a[k] * b[k];
    }
    one[static_cast<std::size_t>(random() % static_cast<unsigned>(width))] = 3;
    for (std::vector<double>* x : {&a, &b, &one}) rotate_row(x->data(), width);
    for (int n = 0; n < width; ++n) rotated += a[static_cast<std::size_t>(n)] * b[static_cast<std::size_t>(n)];
    CHECK(rotated == doctest::Approx(width * dot));
    for (double x : one) CHECK(std::fabs(x) == 3);
    std::vector<double> equal(static_cast<std::size_t>(width), 1.0);  // what the signs are for
    rotate_row(equal.data(), width);
    CHECK(std::fabs(*std::max_element(equal.begin(), equal.end())) <= width / 2.0);
  }
}

TEST_CASE("rounding led by a column makes its error smaller and leaves that of all columns, and exact rows alone") {
  std::mt19937 random(fresh_seed());
  std::normal_distribution<double> normal;
  for (int width : {64, 128, 256}) {
    const auto rounded = [](std::vector<double> y) {
      for (double& x : y) x = round_to(DType::fp8, x);
      return y;
    };
    double column_before = 0, column_after = 0, before = 0, after = 0;  // squares
    for (int row = 0; row < 400; ++row) {
      std::vector<double> x(static_cast<std::size_t>(width));
      for (double& element : x) element = normal(random);
      x[static_cast<std::size_t>(random() % static_cast<unsigned>(width))] += 10;
      const int column =
          largest_of_row(DType::fp64, width, width, [&](int d) { return x[static_cast<std::size_t>(d)]; }).column;
      std::vector<double> y = x;
      rotate_row(y.data(), width);
      std::vector<double> led = y;
      keep_column(led.data(), width, column);
      const auto errors = [&](const std::vector<double>& from, double& of_column, double& of_all) {
        const std::vector<double> to = rounded(from);
        double along = 0;
        for (int d = 0; d < width; ++d) {
          const double error = to[static_cast<std::size_t>(d)] - y[static_cast<std::size_t>(d)];
          along += is_hadamard_negative(d, column) ? -error : error;
          of_all += error * error;
        }
        of_column += along * along;
      };
      errors(y, column_before, before);
      errors(led, column_after, after);
      const std::vector<double> exact = rounded(y);
      std::vector<double> still = exact;
      keep_column(still.data(), width, column);
      CHECK(still == exact);
    }
    CAPTURE(width);
    CHECK(std::sqrt(column_after) < (width == 64 ? 0.8 : 0.6) * std::sqrt(column_before));  // few near the middle
    CHECK(std::sqrt(after) < 1.03 * std::sqrt(before));
  }
}

TEST_CASE("the order of keys: sixteen at a time, those that a thread's accumulators hold of a row") {
  for (int t = 0; t < 4; ++t) {  // thread t has columns 2t, 2t + 1 of eight, and as A places 4t … 4t + 3
    const int keys[] = {2 * t, 2 * t + 1, 8 + 2 * t, 9 + 2 * t};
    for (int n = 0; n < 4; ++n)
      for (int group : {0, 1, 7}) CHECK(key_at(16 * group + 4 * t + n) == 16 * group + keys[n]);
  }
}

// The second half is the same attention from stored values that scales of 2, 0.5 and 4 belong to. This rung finds its
// scales itself: what can be asked of it is that such factors change nothing.
TEST_CASE("N07: weights never pass the largest number of fp8, whichever key tile holds the maximum") {
  for (DType dtype : {DType::fp64, DType::fp32, DType::bf16, DType::fp16})
    for (bool reversed : {false, true})
      for (double factor : {1.0, 2.0}) {
        AttentionProblem p = small_problem(1, 2, 1);
        p.dtype = dtype;
        p.softmax_scale = std::log(2.0);
        std::vector<double> k = {0, 4 * factor}, v = {0.25 * factor * factor, 0.75 * factor * factor};
        const double unit = factor * factor / 4;  // of O
        if (reversed) std::swap(k[0], k[1]), std::swap(v[0], v[1]);
        const AttentionInputs inputs{array_of(1, 1, 1, {1 / factor}), array_of(1, 2, 1, k), array_of(1, 2, 1, v), {}};
        for (int bc : {1, 2}) {
          const AttentionOutputs out = in_fp8(p, inputs, {1, bc, 1});
          CHECK(std::fabs(out.o.values[0] / unit - 49.0 / 17) < 0.02);  // 1 and 16 of 17; 0.15 are allowed
          CHECK(std::fabs(out.lse.values[0] - std::log(17.0)) < 1e-5);
        }
      }
  // Ever higher scores, a key a tile: the last tile's weight is 1 each time, the others' shrink.
  AttentionProblem p = small_problem(1, 64, 1);
  std::vector<double> k, v;
  for (int n = 0; n < 64; ++n) k.push_back(n - n % 4), v.push_back(n % 8);
  const AttentionInputs rising{array_of(1, 1, 1, {8}), array_of(1, 64, 1, k), array_of(1, 64, 1, v), {}};
  CHECK(std::fabs(in_fp8(p, rising, {1, 1, 1}).o.values[0] - 5.5) < 1e-9);  // the mean of the last four
}

TEST_CASE("what e4m3 holds exactly comes out exactly, whatever the tile, the rotation and powers of two do") {
  std::mt19937 random(fresh_seed());
  for (int round = 0; round < rounds(60); ++round) {
    AttentionProblem p = random_small_problem(random);
    p.head_dim = 1;
    AttentionInputs inputs = random_inputs(p, random);
    const double q = std::ldexp(1.0, static_cast<int>(random() % 40) - 20);
    for (double& x : inputs.q.values) x = q;
    for (double& x : inputs.k.values) x = 0;
    for (double& x : inputs.v.values) x = static_cast<double>(random() % 17) / 4;
    const TileShape tile{1 + static_cast<int>(random() % 20), 1 + static_cast<int>(random() % 20), 1};
    const AttentionOutputs right = reference_attention(p, inputs), out = in_fp8(p, inputs, tile);
    CHECK(distance(out.o, right.o) <= 1e-12);
    CHECK(distance(out.lse, right.lse) <= 1e-12);
  }
}

/// Half a unit in the last place of e4m3, as a share: what rounding adds at most.
constexpr double kRounding = 1.0 / 16;
/// The same of a row of Q or K whose rounding is led (fp8_rung.h): y - t h is rounded instead of y, and t h is what an earlier
/// rounding added along h, of a row that was itself moved so. So |t h| <= kRounding (|y| + |t h|), and rounding adds as much again.
constexpr double kLedRounding = 2 * kRounding / (1 - kRounding);

TEST_CASE("errors stay within what rounding Q, K, V and P can do: 200 random problems") {
  const std::uint32_t seed = fresh_seed();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < rounds(200); ++round) {
    AttentionProblem p = random_small_problem(random);
    p.softmax_scale = 0.25 / p.head_dim;
    const AttentionInputs inputs = random_inputs(p, random);
    const TileShape tile{1 + static_cast<int>(random() % 40), 1 + static_cast<int>(random() % 40), 1};
    const auto norm = [](const Array& x) {  // of the longest row
      double longest = 0;
      for (int head = 0; head < x.heads; ++head)
        for (int row = 0; row < x.rows; ++row) {
          double square = 0;
          for (int d = 0; d < x.cols; ++d) square += x.at(head, row, d) * x.at(head, row, d);
          longest = std::max(longest, std::sqrt(square));
        }
      return longest;
    };
    // Of a score: both factors rounded. (Rotation keeps lengths. Subnormals add 2^-18 of a tile's largest element.)
    const double of_score = p.scale() * norm(inputs.q) * norm(inputs.k) * (2 * kLedRounding + kLedRounding * kLedRounding + 1e-3);
    const double of_weight = std::exp(2 * of_score) - 1 + kRounding + p.seqlen_k * std::ldexp(1.0, -18);
    const AttentionOutputs right = reference_attention(p, inputs), out = in_fp8(p, inputs, tile);
    CHECK(distance(out.o, right.o) <= (of_weight + kRounding * (1 + of_weight)) * largest_magnitude(inputs.v));
    CHECK(distance(out.lse, right.lse) <= of_score + 1e-9);
  }
}

// One drawn example: of 256 rows some thirty have outliers of their own and decide, so that other seeds give 0.6 to 1.3
// times these figures (8.4e-3 and 2.0e-2 with libstdc++). So the last line shows a rung that got worse; it does not show
// that the published figure is met. tests/gpu/fp8_test.cpp takes many more rows, docs/deviations.md says what comes out.
TEST_CASE("with outliers in Q, K and V the rotation halves the error") {
  AttentionProblem p = small_problem(256, 2048, 128);
  p.softmax_scale = 0;
  p.dtype = DType::fp16;
  const AttentionInputs inputs = outlier_inputs(p, 7);
  const AttentionOutputs right = reference_attention(p, inputs);
  const double rotated = rms_error(in_fp8(p, inputs).o, right.o);
  const double straight = rms_error(in_fp8(p, inputs, {0, 0, 0}, false).o, right.o);
  MESSAGE("RMSE over 2048 keys: ", rotated, ", without rotation ", straight);
  CHECK(rotated < straight / 2);
  CHECK(rotated < kPublishedRmse);
}

TEST_CASE("NaN and infinity are no numbers afterwards, and leave other rows alone") {
  AttentionProblem p = small_problem(3, 3, 1);
  p.causal = true;
  for (double poison : {std::nan(""), static_cast<double>(INFINITY)}) {
    AttentionInputs inputs{array_of(1, 3, 1, {1, 1, 1}), array_of(1, 3, 1, {1, 2, 3}), array_of(1, 3, 1, {1, 2, 3}), {}};
    inputs.q.at(0, 1, 0) = poison;
    const AttentionOutputs out = in_fp8(p, inputs, {3, 3, 1});
    CHECK(out.o.values[0] == 1);
    CHECK(std::isnan(out.o.values[1]));
    CHECK(std::isfinite(out.o.values[2]));
  }
}

}  // namespace
}  // namespace flashscope
