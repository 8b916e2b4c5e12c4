#include "viz/core/lesson_typed.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "sim/error.h"
#include "viz/core/lesson_expression.h"
#include "viz/core/lesson_wording.h"
#include "viz/core/text.h"
#include "viz/io/json_numbers.h"
#include "viz/io/plain_text.h"

namespace flashscope::viz {
namespace {

using Dimension = LessonUnit::Dimension;

/// The words of a label, so that "FLOPs/byte" is "FLOP per byte" and "key tiles" end like "tiles".
std::vector<std::string> label_words(const std::string& label) {
  std::vector<std::string> words;
  bool in_word = false;
  for (char c : small_letters(label)) {
    if (c == '/') words.emplace_back("per");
    const bool letter = is_letter(c) || static_cast<unsigned char>(c) > 127;
    if (letter && !in_word) words.emplace_back();
    if (letter) words.back() += c;
    in_word = letter;
  }
  for (std::string& word : words) {
    if (word == "b") word = "byte";
    if (word.size() > 2 && word.back() == 's') word.pop_back();
  }
  return words;
}

/// Equal, or one is the other with something said before it.
bool is_label(const std::string& typed, const std::string& label) {
  std::vector<std::string> longer = label_words(typed), shorter = label_words(label);
  if (longer.size() < shorter.size()) std::swap(longer, shorter);
  return !shorter.empty() && std::equal(shorter.rbegin(), shorter.rend(), longer.rbegin());
}

/// Of names only e is a number: e^-0.5.
const Json& only_e(const std::string& name) {
  static const Json e = 2.718281828459045;
  if (name == "e") return e;
  throw Error(ErrorKind::input, "'" + name + "' is not a number");
}

constexpr const char* kNoLetters = "Put numbers in place of letters, as in 1/3 or 2^22.";

/// "N(N+1)/2": with names of what is asked, and not of functions alone.
bool has_letters(const std::string& text) {
  for (const char* name : {"N", "d", "Br", "Bc", "M"})
    for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
      const std::size_t end = at + std::string_view(name).size();
      const bool begins = at == 0 || !is_letter(text[at - 1]) || text[at - 1] == 'N';  // Nd
      const bool ends = end == text.size() || !is_letter(text[end]) || text[end] == 'd';
      if (begins && ends) return true;
    }
  return false;
}

/// "1, 2, 4 and 5": several numbers where one is asked for.
bool is_list(const std::string& text) {
  bool many = false, in_number = false;
  for (std::size_t at = 0; at < text.size();) {
    if (is_digit(text[at])) {
      many = many || in_number;
      while (at < text.size() && is_digit(text[at])) ++at;
      in_number = true;
    } else if (text.compare(at, 3, "and") == 0) {
      at += 3;
    } else if (std::string_view(",;& ").find(text[at]) != std::string_view::npos) {
      ++at;
    } else {
      return false;
    }
  }
  return many;
}

/// What one more in the last digit would add: a tenth for "2.7", a hundred for "1200", whose zeros hold the place.
Number last_place(const std::string& digits) {
  std::int64_t size = 1;
  const std::size_t point = digits.find('.');
  const std::size_t places = point == std::string::npos
                                 ? digits.size() - 1 - std::min(digits.find_last_not_of('0'), digits.size() - 1)
                                 : digits.size() - 1 - point;
  for (std::size_t n = 0; n < std::min<std::size_t>(places, 17); ++n) size *= 10;
  return point == std::string::npos ? Number(size) : Number::fraction(1, size);
}

/// A number, which may be an expression, and at most one unit behind it.
std::optional<Typed> parse_quantity(const std::string& text, const std::string& label, std::string& why) {
  const bool minus = !text.empty() && text[0] == '-';
  const std::string bare = small_letters(trimmed(minus ? text.substr(1) : text));
  for (const char* word : {"infinity", "inf", "∞"}) {
    if (bare.rfind(word, 0) != 0) continue;
    const Number infinite = Number::of(minus ? -HUGE_VAL : HUGE_VAL);
    const std::string behind = trimmed(bare.substr(std::string(word).size()));
    if (behind.empty()) return Typed{infinite, {}};
    if (const auto unit = unit_named(behind)) return Typed{infinite, unit};
    if (is_label(behind, label)) return Typed{infinite, LessonUnit{label, Dimension::plain, Number(1)}};
  }

  // The number ends with its last digit or parenthesis, or with the e of 1/e; what follows is the unit.
  std::size_t last = text.find_last_of("0123456789)");
  if (const std::size_t end = text.find_last_not_of(' '); end != std::string::npos && end > 0 && text[end] == 'e')
    if (const std::size_t before = text.find_last_not_of(' ', end - 1);
        before != std::string::npos && std::string_view("+-*/(").find(text[before]) != std::string_view::npos)
      last = end;
  if (last == std::string::npos) {
    why = "“" + shortened(text) + "” holds no number. " + kNoLetters;
    return std::nullopt;
  }
  std::string number = text.substr(0, last + 1), unit = trimmed(text.substr(last + 1));
  Typed result;
  Number scale(1);
  for (const auto& [name, times] :
       {std::pair{"hundred", 100}, {"thousand", 1'000}, {"million", 1'000'000}, {"billion", 1'000'000'000}})
    if (starts_with_small(unit, name)) {
      scale = Number(times);
      unit = trimmed(unit.substr(std::string(name).size()));
    }
  for (const auto& [name, times] : {std::pair{"k", 1'000}, {"K", 1'000}, {"M", 1'000'000}, {"G", 1'000'000'000}})
    if (unit == name || unit.rfind(name + std::string(" "), 0) == 0) {  // "8.9M", "33 k tokens"
      scale = Number(times);
      unit = trimmed(unit.substr(1));
      break;
    }
  const std::string before_of = small_letters(unit).substr(0, 3) == "of " ? "" : unit.substr(0, unit.find(" of "));
  unit = trimmed(before_of);  // "6 % of the SMs"
  const std::string first_word = small_letters(unit.substr(0, unit.find(' ')));
  if (unit == "x" || unit == "*" || first_word == "times" || first_word == "fold" || first_word == "-fold" ||
      first_word == "as" || first_word == "x")
    unit.clear();  // "2.1 ×", "44 times as many", "twice as many": a ratio
  if (!unit.empty()) {
    result.unit = unit_named(unit);
    if (!result.unit && !is_label(unit, label)) {
      why = "“" + shortened(unit) + "” is no unit known here. Without one the unit beside the box is meant.";
      return std::nullopt;
    }
    if (!result.unit) result.unit = LessonUnit{label, Dimension::plain, Number(1)};
  }
  multiply_at_x(number);
  const std::string digits = without_separators(number), other_digits = without_separators(number, true);
  try {
    result.written = evaluate_number(digits, only_e) * scale;
  } catch (const Error&) {
    why = is_list(text) ? "Those are several numbers. One is asked for."
                        : "“" + shortened(text) + "” is not understood as a number. " +
                              (has_letters(digits) ? kNoLetters : "Write it like 4456448, 4.4 MB, 2^22, 1/3 or 33 %.");
    return std::nullopt;
  }
  if (digits.find_first_not_of("0123456789.") == std::string::npos) result.last_place = last_place(digits) * scale;
  if (other_digits == digits) return result;
  try {
    result.other = evaluate_number(other_digits, only_e) * scale;
    result.digits = digits;
    result.other_digits = other_digits;
    result.by_comma = number.find(',') != std::string::npos;
  } catch (const Error&) {
    result.other.reset();  // the comma between two arguments: there is one reading only
  }
  return result;
}

/// The kinds of unit of which an expression may be made, and by what each is multiplied.
struct UnitFactors {
  int bytes = 1, time = 1, flops = 1;
};

/// "(622 MB - 403 MB) / 622 MB" with each quantity in the base of its unit, "((622*1000000) - …": plain numbers. Bytes
/// and times are multiplied by the factors, which shows what is left of them in the result; a bare 0, which would show
/// nothing, has no place in it. A unit behind a / alone is one of it: "2.7 GFLOP/MB". Empty: no unit in it.
std::string in_base_units(const std::string& text, const UnitFactors& factors) {
  std::string out;
  bool any = false;
  const auto is_bare_zero = [&](std::size_t begin) {
    return begin != std::string::npos && out.find_first_not_of("0. ", begin) == std::string::npos;
  };
  std::size_t number = std::string::npos;  // in `out`: where the number before the unit begins
  for (std::size_t at = 0; at < text.size();) {
    if (is_digit(text[at]) || text[at] == '.') {
      number = out.size();
      while (at < text.size() && (is_digit(text[at]) || text[at] == '.')) out += text[at++];
      continue;
    }
    if (text[at] == ' ') {
      out += text[at++];
      continue;
    }
    std::optional<LessonUnit> unit;
    std::size_t taken = 0;
    const bool divides = number == std::string::npos && !out.empty() && out.back() == '/';
    for (std::size_t size = std::min<std::size_t>(text.size() - at, 14);
         (number != std::string::npos || divides) && size > 0 && !unit; --size) {
      const bool goes_on = at + size < text.size() && is_letter(text[at + size]) && is_letter(text[at + size - 1]);
      if (goes_on || text[at + size - 1] == ' ') continue;
      unit = unit_named(text.substr(at, size));
      taken = size;
    }
    if (!unit || unit->dimension == Dimension::plain) {
      if (is_bare_zero(number)) return "";
      out += text[at++];
      number = std::string::npos;
      continue;
    }
    if (number == std::string::npos) {
      number = out.size();
      out += '1';
    }
    // A GB/s is 1000 bytes a µs, a TFLOP/s a million FLOPs.
    const bool byte_rate = unit->dimension == Dimension::byte_rate, flop_rate = unit->dimension == Dimension::flop_rate;
    const bool rate = byte_rate || flop_rate;
    const Number scale = unit->scale *
                         Number(byte_rate   ? 1000
                                : flop_rate ? 1'000'000
                                            : 1) *
                         Number(byte_rate || unit->dimension == Dimension::bytes ? factors.bytes : 1) *
                         Number(flop_rate || unit->dimension == Dimension::flops ? factors.flops : 1) *
                         Number(unit->dimension == Dimension::time ? factors.time : 1);
    char text_of_scale[64];
    std::snprintf(text_of_scale, sizeof text_of_scale, "*%.17g%s)", scale.value(),
                  rate && factors.time != 1 ? ("/" + std::to_string(factors.time)).c_str() : "");
    out.insert(number, "(");
    while (out.back() == ' ') out.pop_back();
    out += text_of_scale;
    at += taken;
    number = std::string::npos;
    any = true;
  }
  return any && !is_bare_zero(number) ? out : "";
}

/// "1101 MB / 25.2 MB", "524 kB + 4 kB", "2180 MB / 4405 GB/s", "68.7 GFLOP / 25.2 MB", "√(141 GB / 128)": quantities
/// in an expression, and what they come to. Nothing where apples are added to pears.
std::optional<Typed> parse_quantities(std::string text, const std::string& label) {
  multiply_at_x(text);
  text = without_separators(text);
  const auto value = [&](const UnitFactors& factors) -> std::optional<double> {
    const std::string plain = in_base_units(text, factors);
    if (plain.empty()) return std::nullopt;
    try {
      const double number = evaluate_number(plain, only_e).value();
      return std::isfinite(number) && number != 0 ? std::optional(number) : std::nullopt;
    } catch (const Error&) {
      return std::nullopt;
    }
  };
  constexpr int kFactor = 4;
  const auto once = value({}), bytes = value({kFactor, 1, 1}), time = value({1, kFactor, 1}),
             flops = value({1, 1, kFactor});
  if (!once || !bytes || !time || !flops) return std::nullopt;
  const auto power_of = [&](double changed) { return std::log(changed / *once) / std::log(double{kFactor}); };
  const auto is = [](double power, double wanted) { return std::fabs(power - wanted) < 1e-9; };
  const double of_bytes = power_of(*bytes), of_time = power_of(*time), of_flops = power_of(*flops);
  const auto are = [&](double b, double t, double f) { return is(of_bytes, b) && is(of_time, t) && is(of_flops, f); };
  const Number result = Number::of(*once);
  if (are(0, 0, 0)) return Typed{result, {}};
  if (are(0.5, 0, 0)) return Typed{result, {}};  // √(bytes ÷ bytes of a number), the latter unsaid
  if (are(1, 0, 0)) return Typed{result, unit_named("B")};
  if (are(0, 1, 0)) return Typed{result, unit_named("µs")};
  if (are(0, 0, 1)) return Typed{result, unit_named("FLOP")};
  if (are(1, -1, 0)) return Typed{result / Number(1000), unit_named("GB/s")};
  if (are(0, -1, 1)) return Typed{result / Number(1'000'000), unit_named("TFLOP/s")};
  if (are(-1, 0, 1) && is_label("FLOP per byte", label)) return Typed{result, unit_or_label(label)};
  return std::nullopt;
}

/// "40-45", "40 - 45 µs": two plain numbers, the smaller first. As a difference it would be negative, which no answer
/// of this form means.
bool is_range(const std::string& text) {
  const std::size_t dash = text.find('-', 1);
  if (dash == std::string::npos) return false;
  const std::size_t end = text.find_first_not_of("0123456789., ", dash + 1);
  const std::string rest = end == std::string::npos ? "" : text.substr(end);
  if (rest.find_first_of("0123456789+-*/^(") != std::string::npos) return false;
  const auto number = [](const std::string& part) { return Number::decimal(without_separators(trimmed(part))); };
  const auto from = number(text.substr(0, dash));
  const auto to = number(text.substr(dash + 1, end == std::string::npos ? end : end - dash - 1));
  return from && to && !(*from < Number(0)) && *from < *to;
}

}  // namespace

std::optional<Typed> parse_typed(const std::string& typed, const std::string& label, std::string& why) {
  if (typed.size() > 200) {
    why = "That is too long for a number.";
    return std::nullopt;
  }
  const std::string text = plain_wording(typed);
  if (text.empty()) {
    why = "Write a number, with a unit if you like: 4.4 MB, 4,456,448, 2^22, 1/3, 33 %.";
    return std::nullopt;
  }
  if (is_range(text)) {
    why = "“" + shortened(trimmed(typed)) + "” is a range. Type one number: the one you think most likely.";
    return std::nullopt;
  }
  for (const char* same : {"the same", "same", "unchanged", "no change", "it stays the same", "stays the same"})
    if ((label == "times" || label == "×") && small_letters(text) == same) return Typed{Number(1)};
  std::string refused;
  if (const auto quantity = parse_quantity(text, label, refused)) return quantity;
  if (const auto several = parse_quantities(text, label)) return several;
  why = refused;
  return std::nullopt;
}

}  // namespace flashscope::viz
