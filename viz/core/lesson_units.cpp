#include "viz/core/lesson_units.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "sim/error.h"
#include "viz/core/text.h"
#include "viz/io/json_numbers.h"

namespace flashscope::viz {
namespace {

using Dimension = LessonUnit::Dimension;

struct KnownUnit {
  const char* name;
  Dimension dimension;
  std::int64_t above, below;              // scale
  std::vector<const char*> also_written;  // small letters
};

const std::vector<KnownUnit>& known_units() {
  constexpr std::int64_t k = 1000, m = k * k, g = m * k, t = g * k;
  static const std::vector<KnownUnit> list = {
      {"B", Dimension::bytes, 1, 1, {"byte", "bytes"}},
      {"kB", Dimension::bytes, k, 1, {"kb", "kbyte", "kilobyte", "kilobytes"}},
      {"MB", Dimension::bytes, m, 1, {"mb", "mbyte", "megabyte", "megabytes"}},
      {"GB", Dimension::bytes, g, 1, {"gb", "gbyte", "gigabyte", "gigabytes"}},
      {"TB", Dimension::bytes, t, 1, {"tb", "tbyte", "terabyte", "terabytes"}},
      {"KiB", Dimension::bytes, 1 << 10, 1, {"kib", "kibibyte", "kibibytes"}},
      {"MiB", Dimension::bytes, 1 << 20, 1, {"mib", "mebibyte", "mebibytes"}},
      {"GiB", Dimension::bytes, 1 << 30, 1, {"gib", "gibibyte", "gibibytes"}},
      {"TiB", Dimension::bytes, std::int64_t{1} << 40, 1, {"tib", "tebibyte", "tebibytes"}},
      {"ns", Dimension::time, 1, k, {"nanoseconds"}},
      {"µs", Dimension::time, 1, 1, {"us", "μs", "microsecond", "microseconds"}},
      {"ms", Dimension::time, k, 1, {"millisecond", "milliseconds"}},
      {"s", Dimension::time, m, 1, {"sec", "second", "seconds"}},
      {"%", Dimension::share, 1, 100, {"percent", "per cent", "pct", "prozent"}},
      {"GB/s", Dimension::byte_rate, 1, 1, {"gb/s", "gbps"}},
      {"TB/s", Dimension::byte_rate, k, 1, {"tb/s", "tbps"}},
      {"GFLOP/s", Dimension::flop_rate, 1, k, {"gflop/s", "gflops"}},
      {"TFLOP/s", Dimension::flop_rate, 1, 1, {"tflop/s", "tflops"}},
  };
  return list;
}

std::string small_letters(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

std::string trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1));
}

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

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// "√2", "sqrt2" and "sqrt 2,5" with the parentheses that the expression asks for, and "2√2" with its product.
std::string with_root_arguments(const std::string& text) {
  constexpr std::string_view root = "sqrt";
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (text.compare(at, root.size(), root) != 0) {
      out += text[at++];
      continue;
    }
    if (const std::size_t before = out.find_last_not_of(' '); before != std::string::npos)
      if (is_digit(out[before]) || out[before] == ')') out += '*';
    out += root;
    at += root.size();
    const std::size_t begin = std::min(text.find_first_not_of(' ', at), text.size());
    std::size_t end = begin;
    while (end < text.size() && (is_digit(text[end]) || (end > begin && std::string_view(".,'").find(text[end]) !=
                                                                            std::string_view::npos &&
                                                         end + 1 < text.size() && is_digit(text[end + 1]))))
      ++end;
    if (end == begin) continue;
    out += "(" + text.substr(begin, end - begin) + ")";
    at = end;
  }
  return out;
}

/// Replaces each of the characters people write by the one the expression knows.
std::string plain_characters(const std::string& text) {
  static const std::pair<const char*, const char*> table[] = {
      {"−", "-"},  {"–", "-"},    {"‑", "-"},     {"×", "*"},      {"·", "*"},      {"⋅", "*"},
      {"÷", "/"},  {"⁄", "/"},    {"∕", "/"},     {"\u00a0", " "}, {"\u2009", " "}, {"\u202f", " "},
      {"’", "'"},  {"√", "sqrt"}, {"**", "^"},    {"⁻", "^-"},     {"⁰", "^0"},     {"¹", "^1"},
      {"²", "^2"}, {"³", "^3"},   {"⁴", "^4"},    {"⁵", "^5"},     {"⁶", "^6"},     {"⁷", "^7"},
      {"⁸", "^8"}, {"⁹", "^9"},   {"½", "(1/2)"}, {"¼", "(1/4)"},  {"¾", "(3/4)"}};
  std::string out;
  bool in_exponent = false;  // of superscripts: those after the first continue it, so that 2²¹ is 2^21
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = std::string_view(text).substr(at);
    const auto known = std::find_if(std::begin(table), std::end(table), [&](const auto& entry) {
      return rest.substr(0, std::string_view(entry.first).size()) == entry.first;
    });
    if (known == std::end(table)) {
      out += text[at++];
      in_exponent = false;
      continue;
    }
    const bool superscript = known->second[0] == '^' && known->second[1] != '\0';
    out += superscript && in_exponent ? known->second + 1 : known->second;
    in_exponent = superscript;
    at += std::string_view(known->first).size();
  }
  return out;
}

/// Takes separators of thousands out, and turns a decimal comma into a point: "4,456,448" → "4456448", "0,5" → "0.5".
/// One comma or one point before three digits can be read either way: "2,732" → "2732" and "2.732" → "2.732", or where
/// `the_other_way` the reverse.
std::string without_separators(const std::string& text, bool the_other_way = false) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (!is_digit(text[at])) {
      out += text[at++];
      continue;
    }
    std::size_t end = at;
    while (end < text.size() && is_digit(text[end])) ++end;
    std::string digits = text.substr(at, end - at);
    const std::size_t leading = digits.size();
    // Groups: one separator, the same each time, and exactly three digits.
    std::size_t groups = 0;
    std::size_t next = end;
    std::string joined = digits;
    const char separator = end < text.size() ? text[end] : '\0';
    const bool separates =
        separator == ',' || separator == '\'' || separator == ' ' || separator == '_' || separator == '.';
    const auto three = [&](std::size_t from) {
      return from + 3 <= text.size() && is_digit(text[from]) && is_digit(text[from + 1]) && is_digit(text[from + 2]) &&
             (from + 3 == text.size() || !is_digit(text[from + 3]));
    };
    const bool in_fraction = !out.empty() && out.back() == '.';
    while (separates && !in_fraction && leading <= 3 && digits[0] != '0' && next < text.size() &&
           text[next] == separator && three(next + 1)) {
      joined += text.substr(next + 1, 3);
      next += 4;
      ++groups;
    }
    // One group after a point is a fraction: 4.456; two are thousands: 4.456.448.
    const bool in_doubt = groups == 1 && (separator == ',' || separator == '.');
    const bool thousands = groups > 0 && (!in_doubt || (separator == ',') != the_other_way);
    if (thousands) {
      out += joined;
      at = next;
      continue;
    }
    out += digits;
    at = end;
    if (separator == ',' && end + 1 < text.size() && is_digit(text[end + 1])) {
      out += '.';
      ++at;
    }
  }
  return out;
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

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

/// "4.4x10^6": an x between numbers multiplies; that of exp( and max( does not, and 0x40 is another notation, not ours.
void multiply_at_x(std::string& number) {
  if (number.rfind("0x", 0) == 0) return;
  for (std::size_t at = number.find('x'); at != std::string::npos; at = number.find('x', at + 1)) {
    const std::size_t before = number.find_last_not_of(' ', at == 0 ? 0 : at - 1);
    const bool after_number = at > 0 && before != std::string::npos && (is_digit(number[before]) || number[before] == ')');
    if (after_number) number[at] = '*';
  }
}

/// Of names only e is a number: e^-0.5.
const Json& only_e(const std::string& name) {
  static const Json e = 2.718281828459045;
  if (name == "e") return e;
  throw Error(ErrorKind::input, "'" + name + "' is not a number");
}

bool starts_with_small(const std::string& text, const char* begin) { return small_letters(text).rfind(begin, 0) == 0; }

/// What people say around a number: "about 44", "a factor of 44", "x44", "N/d = 64", "44:1", "2.1 MB!".
std::string without_words(std::string text) {
  // "N = 33,000", "16/17 = 94 %": the last of equals is the answer.
  if (const std::size_t equals = text.rfind('='); equals != std::string::npos)
    if (text.find_first_of("0123456789", equals) != std::string::npos) text = trimmed(text.substr(equals + 1));
  for (const char* opening : {"~", "≈", "about ", "approx. ", "approx ", "ca. ", "by ", "a ", "factor ", "of "})
    if (starts_with_small(text, opening)) text = trimmed(text.substr(std::string(opening).size()));
  if (text.size() > 1 && (text[0] == 'x' || text[0] == '*') && text.find_first_of("0123456789") <= 2)
    text = trimmed(text.substr(1));
  while (!text.empty() && (text.back() == '!' || text.back() == '.' || text.back() == ',')) text.pop_back();
  for (const char* ending :
       {":1", ": 1", " in all", " in total", " each", " per head", " a head", " per layer", " a layer"}) {
    const std::size_t size = std::string(ending).size();
    if (text.size() > size && text.substr(text.size() - size) == ending)
      text = trimmed(text.substr(0, text.size() - size));
  }
  return trimmed(text);
}

}  // namespace

std::optional<LessonUnit> unit_named(std::string_view name) {
  const auto of = [](const KnownUnit& unit) {
    return LessonUnit{unit.name, unit.dimension, Number::fraction(unit.above, unit.below)};
  };
  for (const KnownUnit& unit : known_units())
    if (name == unit.name) return of(unit);
  const std::string small = small_letters(name);
  for (const KnownUnit& unit : known_units())
    for (const char* other : unit.also_written)
      if (small == other) return of(unit);
  return std::nullopt;
}

LessonUnit unit_or_label(const std::string& name) {
  if (const auto unit = unit_named(name)) return *unit;
  return {name, Dimension::plain, Number(1)};
}

Formatted split_unit(std::string_view text) {
  const std::size_t at = text.rfind(" in ");
  if (at == std::string_view::npos) return {trimmed(text), ""};
  return {trimmed(text.substr(0, at)), trimmed(text.substr(at + 4))};
}

std::string quantity_text(const Number& base, const LessonUnit& unit) {
  const Number shown = base / unit.scale;
  std::string text = shown.is_whole()                     ? grouped(shown.whole())
                     : unit.dimension == Dimension::plain ? plain_number(shown)
                                                          : significant(shown.value(), 3, false);
  if (unit.name.empty()) return text;
  return text + (unit.name == "×" ? " ×" : " " + unit.name);
}

namespace {

std::string text_in_unit(const Value& value, const std::string& unit) {
  if (value.kind == Value::Kind::text) return value.text;
  if (value.kind == Value::Kind::truth) return value.truth ? "yes" : "no";
  const Number& number = value.number;
  if (unit.empty()) return plain_number(number);
  if (unit == "bytes") return size_text(number.value());
  if (unit == "time") return time_text(number.value());
  if (unit == "x") return significant(number.value(), 2, false) + " ×";
  const std::size_t word = unit.find(" decimal");
  if (word != std::string::npos && word == 1 && is_digit(unit[0]))
    return grouped_text(printed(unit[0] - '0', number.value()));
  const auto known = unit_named(unit);
  if (!known) {
    std::string names = "bytes, time, x, N decimals";
    for (const KnownUnit& other : known_units()) names += std::string(", ") + other.name;
    throw Error(ErrorKind::input, "'" + unit + "' is not one of the units " + names);
  }
  return quantity_text(number, *known);
}

}  // namespace

std::string value_text(const Value& value, const std::string& unit) {
  std::string text = text_in_unit(value, unit);
  if (value.kind == Value::Kind::number && text[0] == '-') text.replace(0, 1, "−");  // as formulas around it have it
  return text;
}

namespace {

/// "+5" and "minus 5": a sign as the expression knows it.
std::string with_plain_sign(const std::string& text) {
  for (const char* word : {"minus ", "plus ", "+"})
    if (starts_with_small(text, word)) {
      const std::string rest = trimmed(text.substr(std::string(word).size()));
      if (rest.empty() || rest[0] == '+' || rest[0] == '-') return text;
      return (word[0] == 'm' ? "-" : "") + rest;
    }
  return text;
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

  // The number ends with its last digit or parenthesis; what follows is the unit.
  const std::size_t last = text.find_last_of("0123456789)");
  if (last == std::string::npos) {
    why = "“" + shortened(text) + "” holds no number.";
    return std::nullopt;
  }
  std::string number = text.substr(0, last + 1), unit = trimmed(text.substr(last + 1));
  Typed result;
  Number scale(1);
  for (const auto& [name, times] : {std::pair{"thousand", 1'000}, {"million", 1'000'000}, {"billion", 1'000'000'000}})
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
  if (unit == "x" || unit == "*" || first_word == "times" || first_word == "fold" || first_word == "-fold")
    unit.clear();  // "2.1 ×", "44 times as many": a ratio
  if (!unit.empty()) {
    result.unit = unit_named(unit);
    if (!result.unit && !is_label(unit, label)) {
      why = "“" + shortened(unit) + "” is no unit known here.";
      return std::nullopt;
    }
    if (!result.unit) result.unit = LessonUnit{label, Dimension::plain, Number(1)};
  }
  multiply_at_x(number);
  const std::string digits = without_separators(number), other_digits = without_separators(number, true);
  try {
    result.written = evaluate_number(digits, only_e) * scale;
  } catch (const Error&) {
    why = "“" + shortened(text) + "” is not understood as a number. Write it like 4456448, 4.4 MB, 2^22, 1/3 or 33 %.";
    return std::nullopt;
  }
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

/// "1101 MB / 25.2 MB" and "524 kB + 4 kB": two quantities of one kind.
std::optional<Typed> parse_two(const std::string& text) {
  const std::size_t at = text.find_last_of("/+");
  if (at == std::string::npos) return std::nullopt;
  std::string ignored;
  const std::string left = trimmed(text.substr(0, at)), right = trimmed(text.substr(at + 1));
  if (left.empty() || right.empty()) return std::nullopt;
  const auto a = parse_quantity(left, "", ignored), b = parse_quantity(right, "", ignored);
  if (!a || !b || !a->unit || !b->unit || a->unit->dimension != b->unit->dimension) return std::nullopt;
  const Number first = a->written * a->unit->scale, second = b->written * b->unit->scale;
  if (text[at] == '+') return Typed{(first + second) / a->unit->scale, a->unit};
  if (second.is_zero()) return std::nullopt;
  return Typed{first / second, {}};
}

}  // namespace

std::optional<Typed> parse_typed(const std::string& typed, const std::string& label, std::string& why) {
  if (typed.size() > 200) {
    why = "That is too long for a number.";
    return std::nullopt;
  }
  const std::string text = with_plain_sign(without_words(trimmed(with_root_arguments(plain_characters(typed)))));
  if (text.empty()) {
    why = "Write a number, with a unit if you like: 4.4 MB, 4,456,448, 2^22, 1/3, 33 %.";
    return std::nullopt;
  }
  std::string refused;
  if (const auto quantity = parse_quantity(text, label, refused)) return quantity;
  if (const auto two = parse_two(text)) return two;
  why = refused;
  return std::nullopt;
}

}  // namespace flashscope::viz
