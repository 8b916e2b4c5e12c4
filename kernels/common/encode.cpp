#include "kernels/common/encode.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/common/in_parts.h"
#include "sim/compute/rounding.h"
#include "sim/error.h"

namespace flashscope::kernels {
namespace {

// Bytes as this machine orders them: GPUs order them the same way.
template <class Bits>
void put(unsigned char* to, Bits bits) {
  std::memcpy(to, &bits, sizeof bits);
}
template <class Bits>
Bits get(const unsigned char* from) {
  Bits bits;
  std::memcpy(&bits, from, sizeof bits);
  return bits;
}

std::uint32_t bits_of(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

float float_of(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

/// x is a value of fp16 already.
std::uint16_t fp16_bits(double x) {
  const std::uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isnan(x)) return 0x7e00;
  if (std::isinf(x)) return sign | 0x7c00;
  if (x == 0) return sign;
  int exponent;
  const double fraction = std::frexp(std::fabs(x), &exponent);                                        // 0.5 … 1
  if (exponent < -13) return sign | static_cast<std::uint16_t>(std::ldexp(fraction, exponent + 24));  // subnormal
  return static_cast<std::uint16_t>(sign | ((exponent + 14) << 10) | (static_cast<int>(fraction * 2048) & 0x3ff));
}

double fp16_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 0x3ff;
  const double magnitude = exponent == 31  ? (mantissa ? std::numeric_limits<double>::quiet_NaN() : INFINITY)
                           : exponent == 0 ? std::ldexp(mantissa, -24)
                                           : std::ldexp(1024 + mantissa, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

void check_stored(DType dtype) {
  if (dtype == DType::fp32 || dtype == DType::fp16 || dtype == DType::bf16) return;
  throw Error(ErrorKind::internal, std::string("no kernel stores ") + name_of(dtype));
}

}  // namespace

std::vector<unsigned char> encode(DType dtype, const std::vector<double>& values) {
  check_stored(dtype);
  const std::int64_t size = element_bytes(dtype);
  std::vector<unsigned char> bytes(values.size() * static_cast<std::size_t>(size));
  in_parts(static_cast<std::int64_t>(values.size()), kSmallestPart, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const double x = round_to(dtype, values[static_cast<std::size_t>(n)]);
      const std::uint32_t fp32_bits = bits_of(static_cast<float>(x));
      unsigned char* const to = bytes.data() + size * n;
      if (dtype == DType::fp32) put(to, fp32_bits);
      if (dtype == DType::bf16) put(to, static_cast<std::uint16_t>(fp32_bits >> 16));
      if (dtype == DType::fp16) put(to, fp16_bits(x));
    }
  });
  return bytes;
}

std::vector<double> decode(DType dtype, const unsigned char* bytes, std::size_t count) {
  check_stored(dtype);
  std::vector<double> values(count);
  in_parts(static_cast<std::int64_t>(count), kSmallestPart, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      double& value = values[static_cast<std::size_t>(n)];
      if (dtype == DType::fp32) value = get<float>(bytes + 4 * n);
      if (dtype == DType::bf16) value = float_of(static_cast<std::uint32_t>(get<std::uint16_t>(bytes + 2 * n)) << 16);
      if (dtype == DType::fp16) value = fp16_value(get<std::uint16_t>(bytes + 2 * n));
    }
  });
  return values;
}

double value_of_e4m3(unsigned char bits) {
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  const double magnitude = (bits & 0x7f) == 0x7f ? std::numeric_limits<double>::quiet_NaN()
                           : exponent == 0       ? std::ldexp(mantissa, -9)
                                                 : std::ldexp(8 + mantissa, exponent - 10);
  return bits & 0x80 ? -magnitude : magnitude;
}

}  // namespace flashscope::kernels
