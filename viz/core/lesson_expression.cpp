#include "viz/core/lesson_expression.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/error.h"
#include "viz/io/json_numbers.h"
#include "viz/io/plain_text.h"

namespace flashscope::viz {
namespace {

constexpr int kMaxLevels = 40;  // of parentheses: deeper is a mistake, and would recurse as deep
constexpr std::size_t kMaxLength = 500;

bool is_name_letter(char c) { return is_letter(c) || c == '_'; }

class Evaluator {
 public:
  Evaluator(std::string_view text, const Documents& documents) : m_all(text), m_rest(text), m_documents(documents) {}

  Value run() {
    if (m_all.size() > kMaxLength)
      throw Error(ErrorKind::input, "an expression of more than " + std::to_string(kMaxLength) + " characters");
    const Value value = comparison();
    blanks();
    if (!m_rest.empty()) fail("'" + std::string(m_rest) + "' is not understood");
    return value;
  }

 private:
  [[noreturn]] void fail(const std::string& text) const {
    throw Error(ErrorKind::input, "in '" + std::string(m_all) + "': " + text);
  }

  void blanks() {
    while (!m_rest.empty() && (m_rest[0] == ' ' || m_rest[0] == '\t')) m_rest.remove_prefix(1);
  }

  bool take(std::string_view token) {
    blanks();
    if (m_rest.substr(0, token.size()) != token) return false;
    m_rest.remove_prefix(token.size());
    return true;
  }

  static Value of(const Number& number) { return {Value::Kind::number, number, "", false}; }
  static Value of(bool truth) { return {Value::Kind::truth, {}, "", truth}; }

  const Number& number(const Value& value) const {
    if (value.kind == Value::Kind::text) fail("\"" + value.text + "\" is no number");
    if (value.kind == Value::Kind::truth) fail("a comparison is no number");
    return value.number;
  }

  Value comparison() {
    const Value left = sum();
    // Longer tokens first.
    for (const char* op : {"<=", "≤", ">=", "≥", "!=", "≠", "==", "<", ">", "="}) {
      if (!take(op)) continue;
      const Value right = sum();
      if (left.kind == Value::Kind::text && right.kind == Value::Kind::text) return of(left.text == right.text);
      const Number &a = number(left), &b = number(right);
      const std::string name = op;
      if (name == "<=" || name == "≤") return of(a <= b);
      if (name == ">=" || name == "≥") return of(b <= a);
      if (name == "!=" || name == "≠") return of(!(a == b));
      if (name == "<") return of(a < b);
      if (name == ">") return of(b < a);
      return of(a == b);
    }
    return left;
  }

  Value sum() {
    Value value = product();
    for (;;) {
      if (take("+"))
        value = of(number(value) + number(product()));
      else if (take("-") || take("−"))
        value = of(number(value) - number(product()));
      else
        return value;
    }
  }

  Value product() {
    Value value = with_sign();
    for (;;) {
      if (take("*") || take("×") || take("·")) {
        value = of(number(value) * number(with_sign()));
      } else if (take("/") || take("÷")) {
        const Number below = number(with_sign());
        if (below.is_zero()) fail("division by zero");
        value = of(number(value) / below);
      } else {
        return value;
      }
    }
  }

  Value with_sign() {
    if (take("-") || take("−")) return of(-number(with_sign()));
    Value value = atom();
    if (!take("^")) return value;
    const Number exponent = number(with_sign());
    if (number(value).is_zero() && exponent < Number(0)) fail("division by zero");
    if (number(value) < Number(0) && std::floor(exponent.value()) != exponent.value())
      fail("a root of a number below 0");
    return of(power(number(value), exponent));
  }

  Value atom() {
    blanks();
    if (m_rest.empty()) fail("something is missing at the end");
    if (take("(")) return in_parentheses();
    if (is_digit(m_rest[0]) || m_rest[0] == '.') return literal();
    if (is_name_letter(m_rest[0])) {
      const std::string name = identifier();
      return take("(") ? function(name) : field_of(name);
    }
    fail("'" + std::string(m_rest) + "' is not understood");
  }

  Value in_parentheses() {
    if (++m_level > kMaxLevels) fail("too many parentheses");
    const Value value = comparison();
    if (!take(")")) fail("a parenthesis is not closed");
    --m_level;
    return value;
  }

  Value literal() {
    std::size_t end = 0;
    while (end < m_rest.size() && (is_digit(m_rest[end]) || m_rest[end] == '.')) ++end;
    // An exponent only when digits follow: "2e" is 2 and a name.
    if (end < m_rest.size() && (m_rest[end] == 'e' || m_rest[end] == 'E')) {
      std::size_t digits = end + 1;
      if (digits < m_rest.size() && (m_rest[digits] == '+' || m_rest[digits] == '-')) ++digits;
      if (digits < m_rest.size() && is_digit(m_rest[digits])) {
        while (digits < m_rest.size() && is_digit(m_rest[digits])) ++digits;
        end = digits;
      }
    }
    const auto value = Number::decimal(m_rest.substr(0, end));
    if (!value) fail("'" + std::string(m_rest.substr(0, end)) + "' is not a number");
    m_rest.remove_prefix(end);
    return of(*value);
  }

  std::string identifier() {
    std::size_t end = 0;
    while (end < m_rest.size() && (is_name_letter(m_rest[end]) || is_digit(m_rest[end]))) ++end;
    std::string name(m_rest.substr(0, end));
    m_rest.remove_prefix(end);
    return name;
  }

  Value function(const std::string& name) {
    if (++m_level > kMaxLevels) fail("too many parentheses");
    std::vector<Number> arguments;
    do arguments.push_back(number(comparison()));
    while (take(","));
    if (!take(")")) fail("the parenthesis of " + name + " is not closed");
    --m_level;
    const auto one = [&]() -> const Number& {
      if (arguments.size() != 1) fail(name + " takes one number");
      return arguments[0];
    };
    if (name == "floor") return of(floor(one()));
    if (name == "ceil") return of(ceil(one()));
    if (name == "abs") return of(abs(one()));
    if (name == "sqrt") return of(root(one()));
    if (name == "exp") return of(Number::of(std::exp(one().value())));
    if (name == "log" || name == "log2") {
      if (!(Number(0) < one())) fail(name + " of a number that is not above 0");
      return of(Number::of(name == "log" ? std::log(one().value()) : std::log2(one().value())));
    }
    if (name == "min" || name == "max") {
      Number best = arguments[0];
      for (const Number& x : arguments)
        if (name == "min" ? x < best : best < x) best = x;
      return of(best);
    }
    fail("'" + name + "' is not one of the functions ceil, floor, min, max, abs, sqrt, log, log2, exp");
  }

  Number root(const Number& x) const {
    if (x < Number(0)) fail("sqrt of a number below 0");
    const Number near = Number(static_cast<std::int64_t>(std::llround(std::min(std::sqrt(x.value()), 3e9))));
    return near * near == x ? near : Number::of(std::sqrt(x.value()));
  }

  Value field_of(const std::string& name) {
    const Json* at = &m_documents(name);
    std::string path = name;
    for (;;) {
      if (m_rest.substr(0, 1) == "." && m_rest.size() > 1 && is_name_letter(m_rest[1])) {
        m_rest.remove_prefix(1);
        const std::string key = identifier();
        at = member(*at, key, path);
        path += "." + key;
      } else if (m_rest.substr(0, 1) == "[") {
        m_rest.remove_prefix(1);
        std::size_t index = 0, digits = 0;
        for (; digits < m_rest.size() && digits < 9 && is_digit(m_rest[digits]); ++digits)
          index = index * 10 + static_cast<std::size_t>(m_rest[digits] - '0');
        m_rest.remove_prefix(digits);
        if (digits == 0 || !take("]")) fail(path + "[: an index is a whole number and ends with ']'");
        if (!at->is_array() || index >= at->size())
          fail(path + "[" + std::to_string(index) +
               "]: " + (at->is_array() ? "there are " + std::to_string(at->size()) : "it is no list"));
        at = &(*at)[index];
        path += "[" + std::to_string(index) + "]";
      } else {
        break;
      }
    }
    if (at->is_number_integer()) return of(Number(at->get<std::int64_t>()));
    if (at->is_number()) return of(Number::of(at->get<double>()));
    if (at->is_boolean()) return of(at->get<bool>());
    if (!at->is_string()) fail(path + " is not a single value");
    const std::string text = at->get<std::string>();
    if (text == "inf") return of(Number::of(HUGE_VAL));
    if (text == "-inf") return of(Number::of(-HUGE_VAL));
    return {Value::Kind::text, {}, text, false};
  }

  const Json* member(const Json& object, const std::string& key, const std::string& path) const {
    if (object.is_object()) {
      const auto found = object.find(key);
      if (found != object.end()) return &*found;
    } else if (object.is_array()) {
      for (const Json& item : object)
        if (item.is_object() && item.value("name", Json()) == key) return &item;
    }
    std::string keys;
    if (object.is_object())
      for (const auto& [name, value] : object.items()) keys += (keys.empty() ? "" : ", ") + name;
    fail(path + " has no '" + key + "'" + (keys.empty() ? "" : "; it has " + keys));
  }

  std::string_view m_all, m_rest;
  const Documents& m_documents;
  int m_level = 0;
};

}  // namespace

Value evaluate(std::string_view expression, const Documents& documents) {
  return Evaluator(expression, documents).run();
}

Number evaluate_number(std::string_view expression, const Documents& documents) {
  const Value value = evaluate(expression, documents);
  if (value.kind != Value::Kind::number)
    throw Error(ErrorKind::input, "in '" + std::string(expression) + "': " +
                                      (value.kind == Value::Kind::text ? "\"" + value.text + "\"" : "a comparison") +
                                      " is no number");
  return value.number;
}

bool evaluate_truth(std::string_view expression, const Documents& documents) {
  const Value value = evaluate(expression, documents);
  if (value.kind != Value::Kind::truth)
    throw Error(ErrorKind::input, "'" + std::string(expression) + "' is no comparison");
  return value.truth;
}

}  // namespace flashscope::viz
