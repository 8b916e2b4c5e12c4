// Numbers as people read them. Sizes are decimal (MB = 10⁶ bytes) everywhere in the window.
#pragma once
#include <cstdint>
#include <string>

namespace flashscope::viz {

std::string grouped(std::int64_t value);                  // 1234567 → "1,234,567"
std::string grouped_decimal(double value, int decimals);  // 1234.5, 1 → "1,234.5"; "inf", "nan" where not finite
std::string size_text(double bytes);                      // "131 kB", "8.66 GB"; three digits that count
// A running counter in the unit, and with the decimals, of its total: it keeps its width.
std::string counter_digits(double bytes, double total);  // "4.33"
const char* counter_unit(double total);                  // " kB", " MB" or " GB"
std::string time_text(double time_us);                   // "412 ns", "12.3 µs", "4.56 ms"
std::string bandwidth_text(double gb_per_s);             // "4.80 TB/s"
std::string percent_text(double share);                  // 0.4263 → "43 %"
std::string three_digits(double value);                  // "0.202", "12.3", "405"

/// The first 40 characters, with "…" where there are more: what somebody typed, as part of a sentence.
std::string shortened(const std::string& text);

/// With no-break spaces (U+00A0) where a line must not end: between a number and its unit, as in "8.91 MB" and "4.4
/// million tiles", around the × of a product of numbers, and around the = of "d = 64". `before`: what stands in front
/// of the text, in another style.
std::string kept_together(const std::string& text, const std::string& before = "");

}  // namespace flashscope::viz
