// Rounding, against every value of the small formats and the midpoints between them.
#include "sim/compute/rounding.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "attention_cases.h"

namespace flashscope {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// All finite values >= 0 of a format, in increasing order, decoded field by field from the bit patterns.
std::vector<double> finite_values(int exponent_bits, int fraction_bits, bool has_infinity) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  std::vector<double> values;
  for (int pattern = 0; pattern < 1 << (exponent_bits + fraction_bits); ++pattern) {
    const int exponent = pattern >> fraction_bits;
    const int fraction = pattern & ((1 << fraction_bits) - 1);
    const bool top = exponent == (1 << exponent_bits) - 1;
    if (has_infinity ? top : top && fraction == (1 << fraction_bits) - 1) break;  // infinities and NaN come last
    values.push_back(exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                                   : std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits));
  }
  return values;
}

void check_every_value(DType dtype, const std::vector<double>& values) {
  CAPTURE(std::string(name_of(dtype)));
  int wrong = 0;  // one CHECK at the end: half a million assertions would take longer than the work
  const auto expect = [&](double x, double right) {
    wrong += !(round_to(dtype, x) == right && round_to(dtype, -x) == -right);
  };
  for (std::size_t n = 0; n < values.size(); ++n) {
    expect(values[n], values[n]);
    if (n + 1 == values.size()) break;
    const double below = values[n], above = values[n + 1], middle = (below + above) / 2;
    expect(middle, n % 2 == 0 ? below : above);  // the neighbour whose last bit is 0
    expect(std::nextafter(middle, 0), below);
    expect(std::nextafter(middle, kInfinity), above);
    wrong += ulp_of(dtype, below) != above - below;
    wrong += ulp_of(dtype, -std::nextafter(above, 0)) != above - below;
  }
  CHECK(wrong == 0);
  CHECK(values.back() == format_of(dtype).max_finite);
}

TEST_CASE("rounding to fp16, bf16 and fp8: every value, every midpoint, and just beside it") {
  check_every_value(DType::fp16, finite_values(5, 10, true));
  check_every_value(DType::bf16, finite_values(8, 7, true));
  check_every_value(DType::fp8, finite_values(4, 3, false));
}

TEST_CASE("fp16 and bf16 overflow to infinity where rounding says so") {
  CHECK(round_to(DType::fp16, 65519.999) == 65504);
  CHECK(round_to(DType::fp16, 65520) == kInfinity);
  CHECK(round_to(DType::fp16, -1e300) == -kInfinity);
  CHECK(round_to(DType::bf16, 0x1.FEFFFFp127) == 0x1.FEp127);
  CHECK(round_to(DType::bf16, 0x1.FFp127) == kInfinity);
  for (DType dtype : {DType::fp64, DType::fp32, DType::fp16, DType::bf16}) {
    CHECK(round_to(dtype, kInfinity) == kInfinity);
    CHECK(round_to(dtype, -kInfinity) == -kInfinity);
  }
}

TEST_CASE("fp8 e4m3 conversion table: saturating") {
  CHECK(round_to(DType::fp8, 448) == 448);
  CHECK(round_to(DType::fp8, 460) == 448);
  CHECK(round_to(DType::fp8, 500) == 448);
  CHECK(round_to(DType::fp8, kInfinity) == 448);
  CHECK(round_to(DType::fp8, -kInfinity) == -448);
  CHECK(round_to(DType::fp8, std::ldexp(1.0, -9)) == std::ldexp(1.0, -9));  // smallest subnormal
  CHECK(round_to(DType::fp8, std::ldexp(1.0, -10)) == 0);                   // a tie: to even
}

TEST_CASE("NaN stays NaN and zero keeps its sign") {
  for (DType dtype : {DType::fp64, DType::fp32, DType::fp16, DType::bf16, DType::fp8}) {
    CHECK(std::isnan(round_to(dtype, std::numeric_limits<double>::quiet_NaN())));
    CHECK(std::isnan(ulp_of(dtype, std::numeric_limits<double>::quiet_NaN())));
    CHECK(std::signbit(round_to(dtype, -0.0)));
    CHECK_FALSE(std::signbit(round_to(dtype, 0.0)));
    CHECK(ulp_of(dtype, kInfinity) == ulp_of(dtype, format_of(dtype).max_finite));
  }
  for (DType dtype : {DType::fp32, DType::fp16, DType::bf16, DType::fp8}) {
    CHECK(round_to(dtype, std::numeric_limits<double>::denorm_min()) == 0);
    CHECK(std::signbit(round_to(dtype, -1e-300)));
  }
}

TEST_CASE("rounding to fp32 is the processor's conversion, subnormals included") {
  const std::uint32_t seed = fresh_seed();
  CAPTURE(seed);
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> fraction(1, 2);
  int wrong = 0;
  for (int n = 0; n < 200'000; ++n) {
    const double x = std::ldexp(fraction(random), static_cast<int>(random() % 285) - 155);  // below the largest float
    if (x < static_cast<double>(std::numeric_limits<float>::max()))
      wrong += round_to(DType::fp32, x) != static_cast<double>(static_cast<float>(x));
  }
  CHECK(wrong == 0);
  CHECK(round_to(DType::fp32, 1e39) == kInfinity);
}

TEST_CASE("fp64 is left alone, and its ulp is the distance to the next double") {
  for (double x : {1.0, 0.1, 3e300, 5e-324, 1e-310, 0.0, 0x1p-1022}) {
    CHECK(round_to(DType::fp64, x) == x);
    CHECK(ulp_of(DType::fp64, x) == std::nextafter(x, kInfinity) - x);
  }
}

TEST_CASE("rounding is to the nearest once, not twice through fp32") {
  // Just above the midpoint of 1 and its fp16 neighbour, by less than fp32 can see: through fp32 it would tie to 1.
  const double x = 1 + 0x1p-11 + 0x1p-40;
  CHECK(round_to(DType::fp16, x) == 1 + 0x1p-10);
  CHECK(round_to(DType::fp16, static_cast<double>(static_cast<float>(x))) == 1);
}

}  // namespace
}  // namespace flashscope
