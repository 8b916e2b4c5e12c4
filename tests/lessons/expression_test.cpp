#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "tests/lessons/support.h"
#include "viz/core/lesson_values.h"
#include "viz/io/json_numbers.h"

namespace flashscope::viz {
namespace {

using testing::contains;
using testing::message_of;

const Json kRun = {{"bytes", 9007199254740993},
                   {"time_us", 2.5},
                   {"gpu", "nvidia-h200"},
                   {"causal", true},
                   {"lse", "-inf"},
                   {"grid", {16, 1, 1}},
                   {"kernels", {{{"name", "first"}, {"flops", 7}}, {{"name", "second"}, {"flops", 8}}}}};

const Json& documents(const std::string& name) {
  if (name == "run") return kRun;
  throw Error(ErrorKind::input, "no run '" + name + "'");
}

Number number(const std::string& text) { return evaluate_number(text, documents); }

TEST_CASE("whole numbers stay exact, also above 2^53, and fractions too") {
  CHECK(number("run.bytes") == Number(9007199254740993));
  CHECK_FALSE(number("run.bytes") == Number(9007199254740992));
  CHECK(number("run.bytes - 9007199254740992") == Number(1));
  CHECK(number("46 - 45.8") == number("0.2"));  // in binary it is 0.2000000000000028
  CHECK(number("1/3 + 1/3 + 1/3") == Number(1));
  CHECK(number("2^62").whole() == std::int64_t{1} << 62);
  CHECK(number("2^-2") == Number::fraction(1, 4));
  CHECK_FALSE(number("2^63").is_exact());
  CHECK(number("2^63").value() == doctest::Approx(9.223372036854775807e18));
  CHECK(number("4.4e6") == Number(4400000));
  CHECK(number("1e-3") == Number::fraction(1, 1000));
}

TEST_CASE("precedence, signs, functions, and the signs that people write") {
  CHECK(number("2 + 3 × 4") == Number(14));
  CHECK(number("(2 + 3) * 4") == Number(20));
  CHECK(number("2 · 3 ^ 2") == Number(18));
  CHECK(number("-2^2") == Number(-4));
  CHECK(number("7 − 10 ÷ 4") == Number::fraction(9, 2));
  CHECK(number("ceil(1024 / 100) + floor(-1/2)") == Number(10));
  CHECK(number("min(3, 1, 2) + max(run.grid[0], 5)") == Number(17));
  CHECK(number("sqrt(1048576)") == Number(1024));
  CHECK(number("log(exp(1))").value() == doctest::Approx(1));
  CHECK(number("log2(8)").value() == doctest::Approx(3));
  CHECK(number("run.kernels.second.flops - run.kernels[0].flops") == Number(1));
  CHECK(std::isinf(number("run.lse").value()));
}

TEST_CASE("comparisons, and texts") {
  CHECK(evaluate_truth("2 < 3", documents));
  CHECK(evaluate_truth("1/3 = 2/6", documents));
  CHECK_FALSE(evaluate_truth("run.bytes = 9007199254740992", documents));
  CHECK(evaluate_truth("run.time_us >= 2.5", documents));
  CHECK(evaluate_truth("run.causal", documents));
  CHECK(evaluate("run.gpu", documents).text == "nvidia-h200");
}

TEST_CASE("what is wrong is said with the place") {
  const std::pair<const char*, const char*> cases[] = {{"2 +", "missing"},
                                                       {"(2", "not closed"},
                                                       {"2 3", "'3' is not understood"},
                                                       {"1 / 0", "division by zero"},
                                                       {"0^-1", "division by zero"},
                                                       {"run.nothing", "run has no 'nothing'; it has bytes"},
                                                       {"other.bytes", "no run 'other'"},
                                                       {"run.grid[3]", "there are 3"},
                                                       {"run.gpu * 2", "no number"},
                                                       {"sin(1)", "functions"},
                                                       {"run.kernels", "not a single value"},
                                                       {"log(0)", "not above 0"},
                                                       {"", "missing"}};
  for (const auto& [text, expected] : cases) {
    CAPTURE(text);
    const char* wanted = expected;
    const std::string said = message_of([&, t = std::string(text)] { evaluate(t, documents); });
    CAPTURE(said);
    CHECK(contains(said, wanted));
  }
}

TEST_CASE("deep and long texts are refused instead of running out of stack") {
  CHECK(contains(message_of([] { number(std::string(200, '(')); }), "too many parentheses"));
  CHECK(contains(message_of([] { number(std::string(100000, '-') + "1"); }), "more than"));
  std::mt19937 random(20261129);
  const std::string letters = "0123456789.+-*/^()[]<>=, eExrunbytesminlog";
  for (int n = 0; n < 20000; ++n) {
    std::string text;
    for (unsigned length = random() % 30; length > 0; --length) text += letters[random() % letters.size()];
    message_of([&] { evaluate(text, documents); });  // any Error is fine, anything else is not
  }
}

std::string shown(const std::string& text) {
  const Formatted parts = split_unit(text);
  return value_text(evaluate(parts.expression, documents), parts.unit);
}

TEST_CASE("values as text") {
  CHECK(shown("4456448 in B") == "4,456,448 B");
  CHECK(shown("4456448 in MB") == "4.46 MB");
  CHECK(shown("4194304 in MiB") == "4 MiB");
  CHECK(shown("1100000000 in MB") == "1,100 MB");
  CHECK(shown("1097.4 in ms") == "1.10 ms");
  CHECK(shown("1/3 in %") == "33.3 %");
  CHECK(shown("2.137 in x") == "2.1 ×");
  CHECK(shown("1/3") == "0.3333");
  CHECK(shown("3/2") == "1.5");
  CHECK(shown("1234567") == "1,234,567");
  CHECK(shown("1234.56 in 1 decimal") == "1,234.6");
  CHECK(shown("2 in 3 decimals") == "2.000");
  CHECK(shown("0.00000000000000011102") == "1.110 × 10⁻¹⁶");
  CHECK(shown("run.gpu") == "nvidia-h200");
  CHECK(shown("run.lse") == "−∞");
  CHECK(shown("0 - 1234567") == "−1,234,567");
  CHECK(shown("1 / 3 - 1 in 3 decimals") == "−0.667");
  CHECK(contains(message_of([] { shown("1 in Mb/s"); }), "MB"));
}

}  // namespace
}  // namespace flashscope::viz
