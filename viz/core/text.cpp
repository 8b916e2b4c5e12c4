#include "viz/core/text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "viz/io/plain_text.h"

namespace flashscope::viz {
namespace {

std::string printed(const char* format, int digits, double value) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, digits, value);
  return buffer;
}

constexpr const char* kNoBreak = "\u00a0";

/// The word's letters, without the punctuation of the sentence it stands in.
std::string bare(std::string word) {
  while (!word.empty() && std::string(".,;:!?)*").find(word.back()) != std::string::npos) word.pop_back();
  return word;
}

/// What follows the last blank, breakable or not.
std::string last_word(const std::string& text) {
  std::size_t begin = text.find_last_of(' ');
  begin = begin == std::string::npos ? 0 : begin + 1;
  if (const std::size_t at = text.rfind(kNoBreak); at != std::string::npos)
    begin = std::max(begin, at + std::string(kNoBreak).size());
  return text.substr(begin);
}

bool is_number(std::string word) {
  for (bool more = true; more;) {
    more = false;
    for (const std::string sign : {"−", "-", "+", "≈", "≥", "≤", "~", "√", "("})
      if (word.rfind(sign, 0) == 0) {
        word.erase(0, sign.size());
        more = true;
      }
  }
  // A comma or a point at the end ends a part of the sentence; within it may be a power: 10⁶, N², 2^20.
  return !word.empty() && is_digit(word[0]) && (is_digit(word.back()) || static_cast<unsigned char>(word.back()) > 127);
}

bool is_unit(const std::string& word) {
  static const std::set<std::string> units = {
      "B",           "kB",      "MB",      "GB",        "TB",         "KiB",  "MiB",     "GiB",
      "TiB",         "byte",    "bytes",   "bit",       "bits",       "ns",   "µs",      "ms",
      "s",           "%",       "×",       "B/s",       "MB/s",       "GB/s", "TB/s",    "FLOP",
      "FLOPs",       "FLOP/s",  "GFLOP/s", "TFLOP/s",   "MHz",        "GHz",  "W",       "clocks",
      "thousand",    "million", "billion", "FLOP/byte", "FLOPs/byte", "SMs",  "seconds", "milliseconds",
      "microseconds"};
  return units.count(bare(word)) == 1;
}

/// N, d, Br, acc: what stands before an equals sign.
bool is_symbol(std::string word) {
  while (!word.empty() && word[0] == '(') word.erase(0, 1);
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !word.empty() && word.size() <= 4 && is_letter(word[0]) && !is_unit(word);
}

}  // namespace

std::string shortened(const std::string& text) {
  int characters = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool continues = (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;  // a character of UTF-8
    if (!continues && ++characters > 40) return text.substr(0, at) + "…";
  }
  return text;
}

std::string kept_together(const std::string& text, const std::string& before) {
  std::string out, last = last_word(before);
  bool has_name = false;  // of the equals sign that `last` is
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t blank = std::min(text.find(' ', at), text.size());
    if (blank > at) last = last_word((at == 0 ? last : "") + text.substr(at, blank - at));
    out += text.substr(at, blank - at);
    at = blank;
    if (at == text.size()) break;
    const std::size_t end = std::min(text.find(' ', at + 1), text.size());
    const std::string next = text.substr(at + 1, end - at - 1);
    const bool product = last == "×" && is_number(bare(next));
    const bool named = next == "=" && is_symbol(last);
    const bool equal = last == "=" && has_name && (next.empty() || is_number(bare(next)));  // "": a value follows
    out += (is_number(last) && is_unit(next)) || product || named || equal ? kNoBreak : " ";
    has_name = named;
    ++at;
  }
  return out;
}

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
  const double unit = total < 999.5e3 ? 1e3 : total < 9.995e9 ? 1e6 : 1e9;
  return grouped_decimal(bytes / unit, total / unit < 99.995 ? 2 : 0);
}

const char* counter_unit(double total) { return total < 999.5e3 ? " kB" : total < 9.995e9 ? " MB" : " GB"; }

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
