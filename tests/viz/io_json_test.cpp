// Numbers in JSON and CSV (case F03), and what strict means.
#include "viz/io/json_numbers.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>

#include "tests/support/throws_error.h"

namespace flashscope {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

TEST_CASE("numbers that JSON cannot say are words, and come back") {
  Json lse = Json::array();
  for (double value : {-kInf, kInf, std::nan(""), 1.3862943611198906}) lse.push_back(json_number(value));
  const std::string text = json_text(lse, -1);
  CHECK(text == "[\"-inf\",\"inf\",\"nan\",1.3862943611198906]\n");
  const Json read = parse_json(text, "result.json");
  CHECK(number_from_json(read[0], "lse[0]") == -kInf);
  CHECK(number_from_json(read[1], "lse[1]") == kInf);
  CHECK(std::isnan(number_from_json(read[2], "lse[2]")));
  CHECK(number_from_json(read[3], "lse[3]") == 1.3862943611198906);
  CHECK(number_text(-kInf) == "-inf");
  CHECK(number_text(std::nan("")) == "nan");
}

TEST_CASE("a written number reads back bit for bit") {
  std::mt19937_64 random(20261129);
  for (int round = 0; round < 2000; ++round) {
    const std::uint64_t bits = random();
    double value;
    std::memcpy(&value, &bits, sizeof value);
    if (std::isnan(value)) continue;
    CHECK(number_from_json(parse_json(json_text(json_number(value)), "x"), "x") == value);
    CHECK(std::strtod(number_text(value).c_str(), nullptr) == value);
  }
}

TEST_CASE("integers are exact to the last one") {
  CHECK(json_text(Json(INT64_MAX), -1) == "9223372036854775807\n");
  const Json object = parse_json("{\"a\": 9223372036854775807, \"b\": 9223372036854775808, \"c\": 1e3, \"d\": -1}", "f");
  CHECK(integer_member(object, "a", 0, INT64_MAX, "f") == INT64_MAX);
  CHECK(thrown_by([&] { integer_member(object, "b", 0, INT64_MAX, "f"); }).says("f.b: 9223372036854775808 is outside"));
  CHECK(thrown_by([&] { integer_member(object, "c", 0, 9, "f"); }).says("f.c: expected an integer, 0 … 9"));
  CHECK(thrown_by([&] { integer_member(object, "d", 0, 9, "f"); }).says("f.d: -1 is outside 0 … 9"));
  CHECK(thrown_by([&] { integer_member(object, "e", 0, 9, "f"); }).says("f: \"e\" is missing"));
}

TEST_CASE("what is not strict JSON is refused with file and place") {
  for (const char* text : {"", "{", "NaN", "[1,]", "{\"a\":-Infinity}", "{'a':1}", "[1] x", "// no\n1", "1e999", "\"\xFF\"",
                           "{\"a\":1,}", "01", "[1 2]", "\"\n\""}) {
    CAPTURE(text);
    const Thrown thrown = thrown_by([&] { parse_json(text, "bad.json"); });
    CHECK(thrown.kind == ErrorKind::input);
    CHECK(thrown.says("bad.json: "));
    CHECK_FALSE(thrown.says("json.exception"));
  }
  CHECK(thrown_by([] { parse_json("{\n \"a\": x}", "bad.json"); }).says("line 2"));
}

TEST_CASE("a key twice in one object is refused; in two objects it is not") {
  CHECK(thrown_by([] { parse_json("{\"a\":1,\"b\":{\"c\":1,\"c\":2}}", "f"); }).says("\"c\" stands twice"));
  CHECK(parse_json("{\"a\":{\"x\":1},\"b\":[{\"x\":1},{\"x\":2}]}", "f")["b"][1]["x"] == 2);
}

TEST_CASE("endless nesting is refused") {
  CHECK(thrown_by([] { parse_json(std::string(1'000'000, '['), "f"); }).says("levels"));
  CHECK_FALSE(thrown_by([] { parse_json(std::string(60, '[') + std::string(60, ']'), "f"); }).kind.has_value());
}

}  // namespace
}  // namespace flashscope
