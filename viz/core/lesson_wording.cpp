#include "viz/core/lesson_wording.h"

#include <algorithm>
#include <cstdint>
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

/// The wide forms of an input method, "４．４　ＭＢ", as ASCII, and digits of another script, "٤٫٤", where no others
/// stand beside them.
std::string narrow_characters(const std::string& text) {
  const bool has_digits = text.find_first_of("0123456789") != std::string::npos;
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = [&](std::size_t n) {
      return at + n < text.size() ? static_cast<unsigned char>(text[at + n]) : 0u;
    };
    unsigned code = byte(0);
    std::size_t size = 1;
    if (code >= 0xC2 && code < 0xE0) {
      code = (code & 0x1F) << 6 | (byte(1) & 0x3F);
      size = 2;
    } else if (code >= 0xE0 && code < 0xF0) {
      code = (code & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
      size = 3;
    }
    char narrow = '\0';
    if (code >= 0xFF01 && code <= 0xFF5E) narrow = static_cast<char>(code - 0xFF01 + '!');
    for (const unsigned zero : {0x0660u, 0x06F0u, 0x0966u})  // Arabic, Persian, Devanagari
      if (!has_digits && code >= zero && code <= zero + 9) narrow = static_cast<char>(code - zero + '0');
    if (code == 0x066B) narrow = '.';
    if (code == 0x066C) narrow = ',';
    if (code == 0x3000) narrow = ' ';
    size = std::min(size, text.size() - at);
    if (narrow != '\0')
      out += narrow;
    else
      out += text.substr(at, size);
    at += size;
  }
  return out;
}

/// Replaces each of the characters people write by the one the expression knows.
std::string plain_characters(const std::string& text) {
  static const std::pair<const char*, const char*> table[] = {
      {"−", "-"},     {"–", "-"},     {"‑", "-"},      {"×", "*"},      {"·", "*"},      {"⋅", "*"},     {"÷", "/"},
      {"⁄", "/"},     {"∕", "/"},     {"\u00a0", " "}, {"\u2009", " "}, {"\u202f", " "}, {"’", "'"},     {"√", "sqrt"},
      {"**", "^"},    {"⁻", "^-"},    {"⁰", "^0"},     {"¹", "^1"},     {"²", "^2"},     {"³", "^3"},    {"⁴", "^4"},
      {"⁵", "^5"},    {"⁶", "^6"},    {"⁷", "^7"},     {"⁸", "^8"},     {"⁹", "^9"},     {"½", "(1/2)"}, {"¼", "(1/4)"},
      {"¾", "(3/4)"}, {"⅓", "(1/3)"}, {"⅔", "(2/3)"},  {"⅛", "(1/8)"}};
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
    const std::size_t before = out.find_last_not_of(' ');
    if (known->second[0] == '(' && before != std::string::npos && is_digit(out[before]))  // "2½": "2 1/2"
      out.replace(before + 1, std::string::npos, std::string(" ") + known->second[1] + "/" + known->second[3]);
    else
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

/// What a word does to the number in front of it.
enum class Spoken : std::uint8_t { count, hundred, thousands, multiple, part };

struct SpokenWord {
  const char* word;
  Spoken role;
  std::int64_t value;
};

const SpokenWord* spoken_word(const std::string& word) {
  using enum Spoken;
  static const SpokenWord list[] = {{"zero", multiple, 0},
                                    {"none", multiple, 0},
                                    {"nothing", multiple, 0},
                                    {"one", count, 1},
                                    {"two", count, 2},
                                    {"three", count, 3},
                                    {"four", count, 4},
                                    {"five", count, 5},
                                    {"six", count, 6},
                                    {"seven", count, 7},
                                    {"eight", count, 8},
                                    {"nine", count, 9},
                                    {"ten", count, 10},
                                    {"eleven", count, 11},
                                    {"twelve", count, 12},
                                    {"thirteen", count, 13},
                                    {"fourteen", count, 14},
                                    {"fifteen", count, 15},
                                    {"sixteen", count, 16},
                                    {"seventeen", count, 17},
                                    {"eighteen", count, 18},
                                    {"nineteen", count, 19},
                                    {"twenty", count, 20},
                                    {"thirty", count, 30},
                                    {"forty", count, 40},
                                    {"fifty", count, 50},
                                    {"sixty", count, 60},
                                    {"seventy", count, 70},
                                    {"eighty", count, 80},
                                    {"ninety", count, 90},
                                    {"hundred", hundred, 100},
                                    {"thousand", thousands, 1'000},
                                    {"million", thousands, 1'000'000},
                                    {"billion", thousands, 1'000'000'000},
                                    {"once", multiple, 1},
                                    {"twice", multiple, 2},
                                    {"double", multiple, 2},
                                    {"doubles", multiple, 2},
                                    {"doubled", multiple, 2},
                                    {"thrice", multiple, 3},
                                    {"triple", multiple, 3},
                                    {"triples", multiple, 3},
                                    {"quadruple", multiple, 4},
                                    {"half", part, 2},
                                    {"halves", part, 2},
                                    {"halved", part, 2},
                                    {"third", part, 3},
                                    {"thirds", part, 3},
                                    {"quarter", part, 4},
                                    {"quarters", part, 4},
                                    {"fifth", part, 5},
                                    {"fifths", part, 5},
                                    {"sixth", part, 6},
                                    {"sixths", part, 6},
                                    {"seventh", part, 7},
                                    {"sevenths", part, 7},
                                    {"eighth", part, 8},
                                    {"eighths", part, 8},
                                    {"ninth", part, 9},
                                    {"ninths", part, 9},
                                    {"tenth", part, 10},
                                    {"tenths", part, 10}};
  for (const SpokenWord& known : list)
    if (word == known.word) return &known;
  return nullptr;
}

/// One number, word by word: "two hundred fifty-six", "three quarters", "two and a half".
class SpokenNumber {
 public:
  bool empty() const { return m_text.empty() && !m_any; }

  /// Whether the word goes on with the number; then it is part of it. `and_a`: "and a" stands before it.
  bool take(const SpokenWord& word, bool and_a) {
    if (!m_text.empty()) return false;
    const std::int64_t room = m_below % 100;
    switch (word.role) {
      case Spoken::count:
        if (word.value >= 10 ? room != 0 : room % 10 != 0 || (room > 0 && room < 20)) return false;
        m_below += word.value;
        break;
      case Spoken::hundred:
        if (m_below >= 100) return false;
        m_below = std::max<std::int64_t>(m_below, 1) * word.value;
        break;
      case Spoken::thousands:
        m_above += std::max<std::int64_t>(m_below, 1) * word.value;
        m_below = 0;
        break;
      case Spoken::multiple:
        if (m_any) return false;
        m_text = std::to_string(word.value);
        break;
      case Spoken::part:
        m_text = "(1/" + std::to_string(word.value) + ")";
        if (m_any) m_text = std::to_string(m_above + m_below) + (and_a ? "+" : "*") + m_text;
        break;
    }
    m_any = true;
    return true;
  }

  std::string digits() const { return m_text.empty() ? std::to_string(m_above + m_below) : m_text; }

 private:
  std::int64_t m_above = 0, m_below = 0;  // of thousands, and what follows them
  bool m_any = false;
  std::string m_text;  // not empty: nothing can follow
};

/// "four", "twice", "three quarters", "fourfold": numbers as they are spoken, where no digit stands; and "2 thirds".
/// Not the "e" and "exp" of expressions: a word counts whole.
std::string with_spoken_numbers(const std::string& text) {
  const bool has_digits = text.find_first_of("0123456789") != std::string::npos;
  const std::string small = small_letters(text);
  std::string out, between;  // between: what stands behind the number and may belong to it, "and a"
  SpokenNumber number;
  const auto write_number = [&] {
    if (!number.empty()) out += number.digits();
    out += between;
    number = {};
    between.clear();
  };
  for (std::size_t at = 0; at < small.size();) {
    if (!is_letter(small[at])) {
      if (small[at] != ' ' && small[at] != '-') write_number();
      (number.empty() ? out : between) += text[at++];
      continue;
    }
    std::size_t end = at;
    while (end < small.size() && is_letter(small[end])) ++end;
    std::string word = small.substr(at, end - at);
    const bool fold = word.size() > 4 && word.substr(word.size() - 4) == "fold";
    if (fold) word.resize(word.size() - 4);
    const SpokenWord* known = spoken_word(word);
    const std::size_t before = out.find_last_not_of(' ');
    const bool of_digits = known && known->role == Spoken::part && before != std::string::npos && is_digit(out[before]);
    if (has_digits && of_digits) {
      out.replace(before + 1, std::string::npos, "*(1/" + std::to_string(known->value) + ")");
    } else if (has_digits || (!known && (number.empty() || (word != "and" && word != "a")))) {
      write_number();
      out += text.substr(at, end - at);
    } else if (!known) {
      between += word;
    } else {
      if (!number.take(*known, trimmed(between) == "and a")) {
        write_number();
        number.take(*known, false);
      } else {
        between.clear();
      }
      if (fold) between = " fold";
    }
    at = end;
  }
  write_number();
  return out;
}

/// "16 2/3" is a sum: (16+2/3). Not 4 456/2, which is a number in groups.
std::string with_mixed_fractions(const std::string& text) {
  const auto digits_end = [&](std::size_t at) {
    while (at < text.size() && is_digit(text[at])) ++at;
    return at;
  };
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t whole = digits_end(at), above = digits_end(whole + 1), below = digits_end(above + 1);
    const bool begins = at == 0 || std::string_view("., '_^").find(text[at - 1]) == std::string_view::npos;
    const bool shaped = whole > at && whole < text.size() && text[whole] == ' ' && above > whole + 1 &&
                        above < whole + 4 && above < text.size() && text[above] == '/' && below > above + 1 &&
                        below < above + 5;
    const auto number = [&](std::size_t begin, std::size_t end) { return std::stoi(text.substr(begin, end - begin)); };
    if (begins && shaped && number(whole + 1, above) < number(above + 1, below)) {
      out += "(" + text.substr(at, whole - at) + "+" + text.substr(whole + 1, below - whole - 1) + ")";
      at = below;
      continue;
    }
    do out += text[at++];
    while (whole > at && at < text.size());
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
  const std::string said = trimmed(with_root_arguments(plain_characters(without_latex(narrow_characters(typed)))));
  return with_plain_sign(with_quotients(without_words(with_mixed_fractions(with_spoken_numbers(said)))));
}

}  // namespace flashscope::viz
