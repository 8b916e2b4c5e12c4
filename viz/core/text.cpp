#include "viz/core/text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace flashscope::viz {
namespace {

std::string printed(const char* format, int digits, double value) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, digits, value);
  return buffer;
}

}  // namespace

std::string grouped(std::int64_t value) {
  std::string digits = std::to_string(value);
  const int first = value < 0 ? 1 : 0;
  for (int at = static_cast<int>(digits.size()) - 3; at > first; at -= 3)
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  return digits;
}

std::string grouped_decimal(double value, int decimals) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  std::string digits = printed("%.*f", decimals, value);
  const std::size_t point = std::min(digits.find('.'), digits.size());
  for (std::size_t at = point, first = value < 0 ? 1 : 0; at > first + 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

std::string three_digits(double value) {
  if (!std::isfinite(value)) return "n/a";
  const double size = std::fabs(value);
  const int digits = size >= 99.95 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 || size == 0 ? 2 : 3;
  return printed("%.*f", digits, value);
}

std::string size_text(double bytes) {
  const double size = std::fabs(bytes);
  if (size < 999.5) return printed("%.*f B", 0, bytes);
  if (size < 999.5e3) return three_digits(bytes / 1e3) + " kB";
  if (size < 999.5e6) return three_digits(bytes / 1e6) + " MB";
  if (size < 999.5e9) return three_digits(bytes / 1e9) + " GB";
  return three_digits(bytes / 1e12) + " TB";
}

std::string counter_digits(double bytes, double total) {
  const double unit = total < 999.5e3 ? 1e3 : 1e6;
  return printed("%.*f", total / unit < 99.995 ? 2 : 0, bytes / unit);
}

const char* counter_unit(double total) { return total < 999.5e3 ? " kB" : " MB"; }

std::string time_text(double time_us) {
  const double size = std::fabs(time_us);
  if (size < 0.9995) return printed("%.*f ns", 0, time_us * 1e3);
  if (size < 999.5) return three_digits(time_us) + " µs";
  if (size < 999.5e3) return three_digits(time_us / 1e3) + " ms";
  return three_digits(time_us / 1e6) + " s";
}

std::string bandwidth_text(double gb_per_s) {
  return gb_per_s < 999.5 ? three_digits(gb_per_s) + " GB/s" : three_digits(gb_per_s / 1e3) + " TB/s";
}

std::string percent_text(double share) { return printed("%.*f %%", 0, share * 100); }

}  // namespace flashscope::viz
