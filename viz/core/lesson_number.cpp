#include "viz/core/lesson_number.h"

#include <cmath>
#include <cstdlib>
#include <numeric>

#include "viz/io/plain_text.h"

namespace flashscope::viz {
namespace {

/// a · b and a + b that know when they do not fit.
bool multiply(std::int64_t a, std::int64_t b, std::int64_t& out) { return !__builtin_mul_overflow(a, b, &out); }
bool add(std::int64_t a, std::int64_t b, std::int64_t& out) { return !__builtin_add_overflow(a, b, &out); }

}  // namespace

Number Number::of(double value) {
  Number n;
  n.m_exact = false;
  n.m_value = value;
  return n;
}

Number Number::fraction(std::int64_t above, std::int64_t below) {
  if (above == INT64_MIN || below == INT64_MIN) return of(static_cast<double>(above) / static_cast<double>(below));
  const std::int64_t shared = std::gcd(above, below);
  Number n;
  n.m_above = above / shared * (below < 0 ? -1 : 1);
  n.m_below = std::llabs(below / shared);
  return n;
}

std::optional<Number> Number::decimal(std::string_view text) {
  std::int64_t digits = 0;
  int exponent = 0;
  bool exact = true, any = false;
  std::size_t at = 0;
  for (bool after_point = false; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '.' && !after_point) {
      after_point = true;
    } else if (is_digit(c)) {
      any = true;
      std::int64_t next = 0;
      exact = exact && multiply(digits, 10, next) && add(next, c - '0', next);
      if (exact) digits = next;
      if (after_point) --exponent;
    } else {
      break;
    }
  }
  if (!any) return std::nullopt;
  if (at < text.size()) {
    if (text[at] != 'e' && text[at] != 'E') return std::nullopt;
    int sign = 1, written = 0;
    if (++at < text.size() && (text[at] == '+' || text[at] == '-')) sign = text[at++] == '-' ? -1 : 1;
    if (at == text.size()) return std::nullopt;
    for (; at < text.size(); ++at) {
      if (text[at] < '0' || text[at] > '9' || written > 9999) return std::nullopt;
      written = written * 10 + (text[at] - '0');
    }
    exponent += sign * written;
  }
  if (exact && exponent >= -18 && exponent <= 18) {
    const Number scale = power(Number(10), Number(exponent));
    const Number product = Number(digits) * scale;
    if (product.is_exact()) return product;
  }
  return of(std::strtod(std::string(text).c_str(), nullptr));
}

double Number::value() const { return m_exact ? static_cast<double>(m_above) / static_cast<double>(m_below) : m_value; }

Number Number::operator-() const {
  if (!m_exact) return of(-m_value);
  return fraction(-m_above, m_below);  // never INT64_MIN: fraction() and overflow checks keep it out
}

Number operator+(const Number& a, const Number& b) {
  std::int64_t left = 0, right = 0, above = 0, below = 0;
  if (a.m_exact && b.m_exact && multiply(a.m_above, b.m_below, left) && multiply(b.m_above, a.m_below, right) &&
      add(left, right, above) && multiply(a.m_below, b.m_below, below))
    return Number::fraction(above, below);
  return Number::of(a.value() + b.value());
}

Number operator-(const Number& a, const Number& b) { return a + -b; }

Number operator*(const Number& a, const Number& b) {
  if (a.m_exact && b.m_exact) {
    // Reduced crosswise first, so that what fits in the end fits on the way.
    const Number x = Number::fraction(a.m_above, b.m_below), y = Number::fraction(b.m_above, a.m_below);
    std::int64_t above = 0, below = 0;
    if (multiply(x.m_above, y.m_above, above) && multiply(x.m_below, y.m_below, below))
      return Number::fraction(above, below);
  }
  return Number::of(a.value() * b.value());
}

Number operator/(const Number& a, const Number& b) {
  if (b.m_exact && b.m_above != 0) return a * Number::fraction(b.m_below, b.m_above);
  return Number::of(a.value() / b.value());
}

Number power(const Number& base, const Number& exponent) {
  if (!base.is_exact() || !exponent.is_whole() || std::llabs(exponent.whole()) > 64)
    return Number::of(std::pow(base.value(), exponent.value()));
  Number result(1);
  for (std::int64_t n = std::llabs(exponent.whole()); n > 0; --n) result = result * base;
  if (!result.is_exact()) return Number::of(std::pow(base.value(), exponent.value()));
  return exponent.whole() < 0 ? Number(1) / result : result;
}

Number floor(const Number& x) {
  if (!x.m_exact) return Number::of(std::floor(x.m_value));
  const std::int64_t down = x.m_above / x.m_below;
  return Number(down - (x.m_above % x.m_below < 0 ? 1 : 0));
}

Number ceil(const Number& x) { return -floor(-x); }

Number abs(const Number& x) { return x < Number(0) ? -x : x; }

bool operator<(const Number& a, const Number& b) {
  std::int64_t left = 0, right = 0;
  if (a.m_exact && b.m_exact && multiply(a.m_above, b.m_below, left) && multiply(b.m_above, a.m_below, right))
    return left < right;
  return a.value() < b.value();
}

bool operator==(const Number& a, const Number& b) {
  if (a.m_exact && b.m_exact) return a.m_above == b.m_above && a.m_below == b.m_below;
  return a.value() == b.value();
}

}  // namespace flashscope::viz
