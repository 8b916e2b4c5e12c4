#include "sim/compute/rounding.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "sim/error.h"

namespace flashscope {
namespace {

constexpr int kFractionBits = 52;  // of float64
constexpr int kBias = 1023;
constexpr std::uint64_t kHiddenOne = std::uint64_t{1} << kFractionBits;

std::uint64_t bits_of(double x) {
  std::uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

/// 2^exponent for -1074 <= exponent <= 1023.
double power_of_two(int exponent) {
  const bool subnormal = exponent <= -kBias;
  const std::uint64_t bits = subnormal ? std::uint64_t{1} << (exponent + kBias - 1 + kFractionBits)
                                       : static_cast<std::uint64_t>(exponent + kBias) << kFractionBits;
  double x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

/// e with 2^e <= |x| < 2^(e+1); at most -1023 for zero and float64's subnormals.
int exponent_of(double x) { return static_cast<int>(bits_of(std::fabs(x)) >> kFractionBits) - kBias; }

}  // namespace

FloatFormat format_of(DType dtype) {
  switch (dtype) {
    case DType::fp64: return {53, -1022, std::numeric_limits<double>::max(), true};
    case DType::fp32: return {24, -126, static_cast<double>(std::numeric_limits<float>::max()), true};
    case DType::fp16: return {11, -14, 65504.0, true};
    case DType::bf16: return {8, -126, 0x1.FEp127, true};
    case DType::fp8: return {4, -6, 448.0, false};
  }
  throw Error(ErrorKind::internal, "format_of: unknown dtype");
}

double round_to(DType dtype, double x) {
  if (dtype == DType::fp64 || std::isnan(x) || x == 0) return x;
  const FloatFormat format = format_of(dtype);
  const double too_large = format.has_infinity ? std::numeric_limits<double>::infinity() : format.max_finite;
  if (std::isinf(x)) return std::copysign(too_large, x);

  // |x| = significand · 2^(exponent - 52). The target keeps all but the last `drop` bits; subnormals keep fewer.
  const int exponent = exponent_of(x);
  const int drop = kFractionBits + 1 - format.significand_bits + std::max(0, format.min_exponent - exponent);
  if (drop > kFractionBits + 1) return std::copysign(0.0, x);  // below half of the smallest subnormal
  const std::uint64_t significand = (bits_of(x) & (kHiddenOne - 1)) | kHiddenOne;
  // Add just under one half, and the missing bit where the last kept one is odd: ties go to even.
  const std::uint64_t odd = (significand >> drop) & 1;
  const std::uint64_t rounded = (significand + (std::uint64_t{1} << (drop - 1)) - 1 + odd) >> drop;
  const double magnitude = static_cast<double>(rounded) * power_of_two(exponent - kFractionBits + drop);
  return std::copysign(magnitude > format.max_finite ? too_large : magnitude, x);
}

double ulp_of(DType dtype, double x) {
  if (std::isnan(x)) return x;
  const FloatFormat format = format_of(dtype);
  const double magnitude = std::min(std::fabs(x), format.max_finite);
  return power_of_two(std::max(exponent_of(magnitude), format.min_exponent) - format.significand_bits + 1);
}

}  // namespace flashscope
