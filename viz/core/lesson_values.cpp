#include "viz/core/lesson_values.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "sim/error.h"
#include "viz/core/text.h"
#include "viz/io/plain_text.h"

namespace flashscope::viz {
namespace {

std::string printed(int decimals, double value) {
  char buffer[400];
  std::snprintf(buffer, sizeof buffer, "%.*f", decimals, value);
  return buffer;
}

/// Commas between groups of three in front of the point.
std::string grouped_text(std::string digits) {
  std::size_t end = digits.find('.');
  if (end == std::string::npos) end = digits.size();
  const std::size_t first = digits[0] == '-' ? 1 : 0;
  for (std::size_t at = end; at > first + 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string superscript(int value) {
  static const char* digits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text = value < 0 ? "⁻" : "";
  for (char c : std::to_string(std::abs(value))) text += digits[c - '0'];
  return text;
}

/// `digits` significant ones, never in front of the point fewer than there are; `trim` drops zeros at the end.
std::string significant(double value, int digits, bool trim) {
  if (std::isnan(value)) return "n/a";
  if (std::isinf(value)) return value < 0 ? "−∞" : "∞";
  if (value == 0) return "0";
  int magnitude = static_cast<int>(std::floor(std::log10(std::fabs(value))));
  if (magnitude < -4 || magnitude >= 15) {
    double mantissa = value / std::pow(10.0, magnitude);
    if (printed(digits - 1, std::fabs(mantissa)).substr(0, 2) == "10") mantissa /= 10, ++magnitude;
    return printed(digits - 1, mantissa) + " × 10" + superscript(magnitude);
  }
  std::string text = printed(std::max(0, digits - 1 - magnitude), value);
  if (trim && text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return grouped_text(text);
}

std::string plain_number(const Number& number) {
  return number.is_whole() ? grouped(number.whole()) : significant(number.value(), 4, true);
}

std::string text_in_unit(const Value& value, const std::string& unit) {
  if (value.kind == Value::Kind::text) return value.text;
  if (value.kind == Value::Kind::truth) return value.truth ? "yes" : "no";
  const Number& number = value.number;
  if (unit.empty()) return plain_number(number);
  if (unit == "bytes") return size_text(number.value());
  if (unit == "time") return time_text(number.value());
  if (unit == "x") return significant(number.value(), 2, false) + " ×";
  const std::size_t word = unit.find(" decimal");
  constexpr int kMostDecimals = 17;  // all that a double has
  if (word != std::string::npos && word >= 1 && word <= 2 && is_digit(unit[0]) && is_digit(unit[word - 1]))
    if (const int decimals = std::stoi(unit.substr(0, word)); decimals <= kMostDecimals)
      return grouped_text(printed(decimals, number.value()));
  const auto known = unit_named(unit);
  if (!known)
    throw Error(ErrorKind::input, "'" + unit + "' is not one of the units bytes, time, x, N decimals, " + unit_names());
  return quantity_text(number, *known);
}

}  // namespace

Formatted split_unit(std::string_view text) {
  const std::size_t at = text.rfind(" in ");
  if (at == std::string_view::npos) return {trimmed(text), ""};
  return {trimmed(text.substr(0, at)), trimmed(text.substr(at + 4))};
}

std::string quantity_text(const Number& base, const LessonUnit& unit) {
  const Number shown = base / unit.scale;
  std::string text = shown.is_whole()                                 ? grouped(shown.whole())
                     : unit.dimension == LessonUnit::Dimension::plain ? plain_number(shown)
                                                                      : significant(shown.value(), 3, false);
  return unit.name.empty() ? text : text + " " + unit.name;
}

std::string value_text(const Value& value, const std::string& unit) {
  std::string text = text_in_unit(value, unit);
  if (value.kind == Value::Kind::number && text[0] == '-') text.replace(0, 1, "−");  // as formulas around it have it
  return text;
}

}  // namespace flashscope::viz
