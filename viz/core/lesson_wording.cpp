#include "viz/core/lesson_wording.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "viz/core/lesson_units.h"
#include "viz/io/plain_text.h"

namespace flashscope::viz {

namespace {

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
    while (end < text.size() &&
           (is_digit(text[end]) || (end > begin && std::string_view(".,'").find(text[end]) != std::string_view::npos &&
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

}  // namespace

bool starts_with_small(const std::string& text, const char* begin) { return small_letters(text).rfind(begin, 0) == 0; }

std::string without_separators(const std::string& text, bool the_other_way) {
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

void multiply_at_x(std::string& number) {
  if (number.rfind("0x", 0) == 0) return;
  for (std::size_t at = number.find('x'); at != std::string::npos; at = number.find('x', at + 1)) {
    const std::size_t before = number.find_last_not_of(' ', at == 0 ? 0 : at - 1);
    const bool after_number =
        at > 0 && before != std::string::npos && (is_digit(number[before]) || number[before] == ')');
    if (after_number) number[at] = '*';
  }
}

std::string plain_wording(const std::string& typed) {
  const std::string said = trimmed(with_root_arguments(plain_characters(without_latex(typed))));
  return with_plain_sign(with_quotients(without_words(with_spoken_numbers(said))));
}

}  // namespace flashscope::viz
