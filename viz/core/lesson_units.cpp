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
      {"kB", Dimension::bytes, k, 1, {"kb", "kbyte", "kbytes", "kilobyte", "kilobytes"}},
      {"MB", Dimension::bytes, m, 1, {"mb", "mbyte", "mbytes", "megabyte", "megabytes"}},
      {"GB", Dimension::bytes, g, 1, {"gb", "gbyte", "gbytes", "gigabyte", "gigabytes"}},
      {"TB", Dimension::bytes, t, 1, {"tb", "tbyte", "tbytes", "terabyte", "terabytes"}},
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

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

/// "e^{-0.5}", "\\frac{1}{3}", "4.4 \\cdot 10^{6}\\,\\text{MB}": as somebody writes who writes papers.
std::string without_latex(std::string text) {
  if (text.find_first_of("\\{$") == std::string::npos) return text;
  for (const std::string word : {"\\text{", "\\mathrm{"})
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word)) {
      const std::size_t end = text.find('}', at);
      if (end != std::string::npos) text.erase(end, 1);
      text.erase(at, word.size());
    }
  static const std::pair<const char*, const char*> table[] = {
      {"\\dfrac", ""},  {"\\tfrac", ""}, {"\\frac", ""},   {"}{", ")/("},      {"{,}", ","},   {"\\cdot", "*"},
      {"\\times", "*"}, {"\\div", "/"},  {"\\approx", ""}, {"\\infty", "inf"}, {"\\left", ""}, {"\\right", ""},
      {"\\,", " "},     {"\\;", " "},    {"\\", ""},       {"$", ""},          {"{", "("},     {"}", ")"}};
  for (const auto& [what, by] : table) replace_all(text, what, by);
  return text;
}

struct SpokenNumber {
  const char* word;
  const char* digits;
};

/// "four", "twice", "three quarters", "fourfold": small numbers as they are spoken, where no digit stands. Not the "e"
/// and "exp" of expressions: a word counts whole.
std::string with_spoken_numbers(const std::string& text) {
  if (text.find_first_of("0123456789") != std::string::npos) return text;
  static const SpokenNumber list[] = {
      {"zero", "0"},        {"none", "0"},       {"nothing", "0"},   {"one", "1"},        {"once", "1"},
      {"two", "2"},         {"three", "3"},      {"four", "4"},      {"five", "5"},       {"six", "6"},
      {"seven", "7"},       {"eight", "8"},      {"nine", "9"},      {"ten", "10"},       {"eleven", "11"},
      {"twelve", "12"},     {"twice", "2"},      {"double", "2"},    {"doubles", "2"},    {"doubled", "2"},
      {"thrice", "3"},      {"triple", "3"},     {"triples", "3"},   {"quadruple", "4"},  {"half", "(1/2)"},
      {"halves", "(1/2)"},  {"halved", "(1/2)"}, {"third", "(1/3)"}, {"thirds", "(1/3)"}, {"quarter", "(1/4)"},
      {"quarters", "(1/4)"}};
  const auto spoken = [&](const std::string& word) -> const SpokenNumber* {
    for (const SpokenNumber& number : list)
      if (word == number.word) return &number;
    return nullptr;
  };
  std::string small = small_letters(text);
  if (small == "a hundred" || small == "hundred" || small == "hundredfold") return "100";
  std::string out;
  for (std::size_t at = 0; at < small.size();) {
    const bool letter = small[at] >= 'a' && small[at] <= 'z';
    if (!letter) {
      out += text[at++];
      continue;
    }
    std::size_t end = at;
    while (end < small.size() && small[end] >= 'a' && small[end] <= 'z') ++end;
    std::string word = small.substr(at, end - at);
    const bool fold = word.size() > 4 && word.substr(word.size() - 4) == "fold";
    if (fold) word.resize(word.size() - 4);
    if (const SpokenNumber* number = spoken(word)) {
      const std::size_t before = out.find_last_not_of(" -");
      if (number->digits[0] == '(' && before != std::string::npos && is_digit(out[before]))
        out.replace(before + 1, std::string::npos, "*");  // three quarters
      out += number->digits;
      if (fold) out += " fold";
    } else {
      out += text.substr(at, end - at);
    }
    at = end;
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
  for (bool more = true; more;) {  // "a factor of about 44"
    more = false;
    for (const char* opening :
         {"~", "≈", "about ", "approx. ", "approx ", "ca. ", "roughly ", "it ", "they ", "by ", "a ", "factor ", "of "})
      if (starts_with_small(text, opening)) {
        text = trimmed(text.substr(std::string(opening).size()));
        more = true;
      }
  }
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
  constexpr int kMostDecimals = 17;  // all that a double has
  if (word != std::string::npos && word >= 1 && word <= 2 && is_digit(unit[0]) && is_digit(unit[word - 1]))
    if (const int decimals = std::stoi(unit.substr(0, word)); decimals <= kMostDecimals)
      return grouped_text(printed(decimals, number.value()));
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
    why = "“" + shortened(text) + "” holds no number. Put numbers in place of letters, as in 1/3 or 2^22.";
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

/// "16 of 132 SMs" is 16/132, and "403 MB out of 622 MB" a quotient too; "6 % of the SMs" and "a factor of 44" are not.
std::string with_quotients(const std::string& text) {
  const std::string small = small_letters(text);
  for (const std::string word : {" out of ", " of ", " in "}) {
    const std::size_t at = small.find(word);
    if (at == std::string::npos || small.find_first_of("0123456789") > at) continue;
    const char before = small[small.find_last_not_of(' ', at)];
    std::size_t behind = at + word.size();
    for (const std::string filler : {"all ", "the "})
      if (small.compare(behind, filler.size(), filler) == 0) behind += filler.size();
    if (behind >= small.size() || !is_digit(small[behind]) || before == '%' || small.find("cent") < at) continue;
    std::string whole = text.substr(behind);
    const std::size_t last = whole.find_last_of("0123456789)");
    if (!unit_named(trimmed(whole.substr(last + 1)))) whole.resize(last + 1);
    return trimmed(text.substr(0, at)) + " / " + whole;
  }
  // "4096 : 64": a quotient too.
  const std::size_t colon = text.find(':');
  if (colon != std::string::npos && colon > 0 && text.find(':', colon + 1) == std::string::npos)
    return text.substr(0, colon) + "/" + text.substr(colon + 1);
  return text;
}

/// The kinds of unit of which an expression may be made, and by what each is multiplied.
struct UnitFactors {
  int bytes = 1, time = 1;
};

/// "(622 MB - 403 MB) / 622 MB" with each quantity in the base of its unit, "((622*1000000) - …": plain numbers. Bytes
/// and times are multiplied by the factors, which shows what is left of them in the result; a bare 0, which would show
/// nothing, has no place in it. Empty: no unit in it.
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
    for (std::size_t size = std::min<std::size_t>(text.size() - at, 14);
         number != std::string::npos && size > 0 && !unit; --size) {
      const bool goes_on = at + size < text.size() && is_letter(text[at + size]) && is_letter(text[at + size - 1]);
      if (goes_on || text[at + size - 1] == ' ') continue;
      unit = unit_named(text.substr(at, size));
      taken = size;
    }
    using D = LessonUnit::Dimension;
    if (!unit || unit->dimension == D::plain || unit->dimension == D::flop_rate) {
      if (is_bare_zero(number)) return "";
      out += text[at++];
      number = std::string::npos;
      continue;
    }
    // A GB/s is 1000 bytes a µs.
    const bool rate = unit->dimension == D::byte_rate;
    const Number scale = unit->scale * (rate ? Number(1000) : Number(1)) *
                         Number(rate || unit->dimension == D::bytes ? factors.bytes : 1) *
                         Number(unit->dimension == D::time ? factors.time : 1);
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

/// "1101 MB / 25.2 MB", "524 kB + 4 kB", "2180 MB / 4405 GB/s", "√(141 GB / 128)": quantities in an expression, and
/// what they come to. Nothing where apples are added to pears.
std::optional<Typed> parse_quantities(std::string text) {
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
  const auto once = value({}), bytes = value({kFactor, 1}), time = value({1, kFactor});
  if (!once || !bytes || !time) return std::nullopt;
  const auto power_of = [&](double changed) { return std::log(changed / *once) / std::log(double{kFactor}); };
  const auto is = [](double power, double wanted) { return std::fabs(power - wanted) < 1e-9; };
  const double of_bytes = power_of(*bytes), of_time = power_of(*time);
  const Number result = Number::of(*once);
  if (is(of_bytes, 0) && is(of_time, 0)) return Typed{result, {}};
  if (is(of_bytes, 0.5) && is(of_time, 0)) return Typed{result, {}};  // √(bytes ÷ bytes of a number), the latter unsaid
  if (is(of_bytes, 1) && is(of_time, 0)) return Typed{result, unit_named("B")};
  if (is(of_bytes, 0) && is(of_time, 1)) return Typed{result, unit_named("µs")};
  if (is(of_bytes, 1) && is(of_time, -1)) return Typed{result / Number(1000), unit_named("GB/s")};
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
  const std::string said = trimmed(with_root_arguments(plain_characters(without_latex(typed))));
  const std::string text = with_plain_sign(with_quotients(without_words(with_spoken_numbers(said))));
  if (text.empty()) {
    why = "Write a number, with a unit if you like: 4.4 MB, 4,456,448, 2^22, 1/3, 33 %.";
    return std::nullopt;
  }
  if (is_range(text)) {
    why = "“" + shortened(said) + "” is a range. Type one number: the one you think most likely.";
    return std::nullopt;
  }
  std::string refused;
  if (const auto quantity = parse_quantity(text, label, refused)) return quantity;
  if (const auto several = parse_quantities(text)) return several;
  why = refused;
  return std::nullopt;
}

}  // namespace flashscope::viz
