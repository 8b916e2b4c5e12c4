// Text for people: numbers with separators, units, aligned tables.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace flashscope {

/// "4,456,448"
std::string grouped(std::int64_t value);
/// The same number in a decimal unit with three digits: "4.46 MB", "8.66 GB", "24 B".
std::string decimal_bytes(std::int64_t bytes);
/// "1,234.5" with `decimals` digits after the point; "inf", "-inf" or "nan" where it is not finite.
std::string grouped_decimal(double value, int decimals);
/// "2.00×", or "n/a" where the divisor is 0.
std::string ratio_text(double a, double b);
/// Error of a prediction in percent of the measured value, "+1.3 %"; "n/a" where that is 0.
std::string error_text(double predicted, double measured);
/// "n/a" for no time at all. `flops` decides which count this is; the caller says it beside the number.
std::string tflops_text(std::int64_t flops, double time_us);

/// Rows of cells in columns two blanks apart. Widths are counted in characters, not bytes.
class Table {
 public:
  enum class Align : std::uint8_t { left, right };
  explicit Table(std::vector<Align> columns, int indent = 2) : m_columns(std::move(columns)), m_indent(indent) {}

  /// Missing cells at the end are empty. A row whose first cell alone is set may run over the other columns.
  void row(std::vector<std::string> cells) { m_rows.push_back(std::move(cells)); }
  void blank() { m_rows.emplace_back(); }
  std::string text() const;

 private:
  std::vector<Align> m_columns;
  int m_indent;
  std::vector<std::vector<std::string>> m_rows;
};

/// `text` broken at blanks into lines that end before column `width` and begin at column `indent`; the first `indent`
/// columns of the first line are the caller's.
std::string wrapped(const std::string& text, int width, int indent);

}  // namespace flashscope
