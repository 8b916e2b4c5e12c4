#include "kernels/common/encode.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "sim/compute/rounding.h"
#include "sim/error.h"

namespace flashscope::kernels {
namespace {

template <class Bits>
void append(std::vector<unsigned char>& bytes, Bits bits) {
  unsigned char raw[sizeof bits];
  std::memcpy(raw, &bits, sizeof bits);
  bytes.insert(bytes.end(), raw, raw + sizeof bits);
}

std::uint32_t bits_of(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
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

[[noreturn]] void no_rung(DType dtype) {
  throw Error(ErrorKind::internal, std::string("no kernel stores ") + name_of(dtype));
}

}  // namespace

std::vector<unsigned char> encode(DType dtype, const std::vector<double>& values) {
  std::vector<unsigned char> bytes;
  bytes.reserve(values.size() * static_cast<std::size_t>(element_bytes(dtype)));
  for (double value : values) {
    const double x = round_to(dtype, value);
    switch (dtype) {
      case DType::fp32: append(bytes, bits_of(static_cast<float>(x))); break;
      case DType::bf16: append(bytes, static_cast<std::uint16_t>(bits_of(static_cast<float>(x)) >> 16)); break;
      case DType::fp16: append(bytes, fp16_bits(x)); break;
      default: no_rung(dtype);
    }
  }
  return bytes;
}

std::vector<double> decode(DType dtype, const unsigned char* bytes, std::size_t count) {
  std::vector<double> values(count);
  for (std::size_t n = 0; n < count; ++n) {
    if (dtype == DType::fp32) {
      float x;
      std::memcpy(&x, bytes + 4 * n, 4);
      values[n] = x;
    } else if (dtype == DType::bf16) {
      const std::uint32_t bits = static_cast<std::uint32_t>(bytes[2 * n] << 16 | bytes[2 * n + 1] << 24);
      float x;
      std::memcpy(&x, &bits, 4);
      values[n] = x;
    } else if (dtype == DType::fp16) {
      values[n] = fp16_value(static_cast<std::uint16_t>(bytes[2 * n] | bytes[2 * n + 1] << 8));
    } else {
      no_rung(dtype);
    }
  }
  return values;
}

}  // namespace flashscope::kernels
