#include "viz/cli/table.h"

#include <algorithm>
#include <cmath>

#include "viz/cli/format.h"

namespace flashscope {
namespace {

/// Characters of UTF-8 text: bytes that do not continue another. All our characters are one column wide.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string with_separators(std::string digits) {
  const std::size_t first = digits[0] == '-' ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

}  // namespace

std::string grouped(std::int64_t value) { return with_separators(std::to_string(value)); }

std::string decimal_bytes(std::int64_t bytes) {
  static constexpr const char* units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes < 1000) return formatted("{} B", bytes);
  double value = static_cast<double>(bytes);
  int unit = 0;
  // 999.5 would round to four digits.
  while (value >= 999.5 && unit < 6) {
    value /= 1000;
    ++unit;
  }
  return formatted("{:.{}f} {}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, units[unit]);
}

std::string grouped_decimal(double value, int decimals) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  const std::string text = formatted("{:.{}f}", value, decimals);
  const std::size_t point = text.find('.');
  return with_separators(text.substr(0, point)) + (point == std::string::npos ? "" : text.substr(point));
}

std::string ratio_text(double a, double b) {
  if (b == 0 || !std::isfinite(a) || !std::isfinite(b)) return "n/a";
  const double ratio = a / b;
  return grouped_decimal(ratio, ratio < 0.1 ? 4 : ratio < 100 ? 2 : 0) + "×";
}

std::string error_text(double predicted, double measured) {
  if (measured == 0 || !std::isfinite(predicted) || !std::isfinite(measured)) return "n/a";
  const double percent = (predicted - measured) / measured * 100;
  return formatted("{:+.{}f} %", percent, std::abs(percent) < 0.095 ? 3 : std::abs(percent) < 99.5 ? 1 : 0);
}

std::string tflops_text(std::int64_t flops, double time_us) {
  if (!(time_us > 0)) return "n/a";
  return grouped_decimal(static_cast<double>(flops) / time_us / 1e6, 2);
}

std::string Table::text() const {
  std::vector<std::size_t> widths(m_columns.size(), 0);
  for (const auto& row : m_rows)
    if (row.size() > 1)
      for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width_of(row[c]));
  std::string text;
  for (const auto& row : m_rows) {
    std::string line(row.empty() ? 0 : static_cast<std::size_t>(m_indent), ' ');
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::size_t used = width_of(row[c]);
      const std::string fill(widths[c] > used ? widths[c] - used : 0, ' ');
      line += (c > 0 ? "  " : "") + (m_columns[c] == Align::left ? row[c] + fill : fill + row[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string wrapped(const std::string& text, int width, int indent) {
  std::string result;
  std::size_t column = static_cast<std::size_t>(indent);
  const auto place = [&](const std::string& word) {
    const std::size_t length = width_of(word);
    if (result.empty()) {
      result = word;
    } else if (column + 1 + length > static_cast<std::size_t>(width)) {
      result += "\n" + std::string(static_cast<std::size_t>(indent), ' ') + word;
      column = static_cast<std::size_t>(indent);
    } else {
      result += " " + word;
      ++column;
    }
    column += length;
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (end > at) place(text.substr(at, end - at));
    at = end + 1;
  }
  return result;
}

}  // namespace flashscope
