// Numbers of lessons. A fraction of whole numbers as long as it fits into 64 bits, so that byte counts are exact and
// 46 - 45.8 is 0.2; a double after that.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace flashscope::viz {

class Number {
 public:
  Number() = default;
  Number(std::int64_t whole) : m_above(whole) {}  // NOLINT: a whole number is a number
  static Number of(double value);
  /// above / below; `below` is not 0.
  static Number fraction(std::int64_t above, std::int64_t below);
  /// Decimal digits with an optional point and exponent ("4.4e6"); nothing when the text is anything else.
  static std::optional<Number> decimal(std::string_view text);

  bool is_exact() const { return m_exact; }
  bool is_whole() const { return m_exact && m_below == 1; }
  std::int64_t whole() const { return m_above; }  // only when is_whole()
  double value() const;
  bool is_zero() const { return m_exact ? m_above == 0 : m_value == 0; }

  Number operator-() const;
  friend Number operator+(const Number& a, const Number& b);
  friend Number operator-(const Number& a, const Number& b);
  friend Number operator*(const Number& a, const Number& b);
  friend Number operator/(const Number& a, const Number& b);  // b is not 0
  /// Exact for whole exponents where it fits.
  friend Number power(const Number& base, const Number& exponent);
  friend Number floor(const Number& x);
  friend Number ceil(const Number& x);
  friend Number abs(const Number& x);
  /// False when either is NaN.
  friend bool operator<(const Number& a, const Number& b);
  friend bool operator==(const Number& a, const Number& b);
  friend bool operator<=(const Number& a, const Number& b) { return a < b || a == b; }

 private:
  bool m_exact = true;
  std::int64_t m_above = 0, m_below = 1;  // reduced, m_below > 0
  double m_value = 0;                     // when not exact
};

}  // namespace flashscope::viz
