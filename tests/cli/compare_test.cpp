// flashscope compare: both sides, the ratio, and a reason for each byte that differs.
#include <doctest/doctest.h>

#include "tests/cli/support.h"
#include "viz/io/json_numbers.h"

namespace flashscope {
namespace {

std::size_t characters(const std::string& line) {
  return static_cast<std::size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

TEST_CASE("compare without arguments sets three_pass beside flash_v2, within 100 columns") {
  const RunResult result = run_here({"compare"});
  REQUIRE(result.code == 0);
  CHECK(contains(result.out, "A  three_pass"));
  CHECK(contains(result.out, "B  flash_v2"));
  CHECK(contains(result.out, "4 passes through memory over 16 × 4,096 × 4,096 × 2 B = 536,870,912 B"));
  CHECK(contains(result.out, "Stays on chip: 0 B"));
  CHECK(contains(result.out, "once for each query tile (Tr = 64)"));
  CHECK(contains(result.out, "TFLOP/s of kept pairs"));
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(characters(line) <= 100);
  }
}

TEST_CASE("the bytes of the reasons add up to the totals of both sides") {
  for (const char* mask : {"--seqlen=512", "--causal"})
    for (const char* a : {"three_pass_naive", "three_pass", "flash_v1"}) {
      const RunResult result =
          run_here({"compare", a, "flash_v2", "--json", "--heads", "4", "--kv-heads", "2", "--seqlen-q", "256",
                    "--seqlen-k", "320", mask[2] == 'c' ? "--causal" : "--batch=2"});
      REQUIRE(result.code == 0);
      const Json document = Json::parse(result.out);
      for (const char* side : {"a", "b"})
        for (const char* key : {"sm_read_bytes", "sm_write_bytes", "hbm_read_bytes", "hbm_write_bytes"}) {
          std::int64_t sum = 0;
          for (const Json& reason : document["reasons"]) sum += reason[side][key].get<std::int64_t>();
          CAPTURE(a);
          CAPTURE(key);
          CHECK(sum == document[side]["predicted"][key].get<std::int64_t>());
        }
    }
}

TEST_CASE("a side is a setting: its own options over the shared ones") {
  const Json document = Json::parse(
      run_here({"compare", "flash_v2:bc=32", "flash_v2:causal:seqlen=256", "--json", "--seqlen", "512", "--bc", "64"})
          .out);
  CHECK(document["a"]["predicted"]["tile"]["bc"] == 32);
  CHECK(document["b"]["predicted"]["tile"]["bc"] == 64);
  CHECK(document["a"]["predicted"]["problem"]["causal"] == false);
  CHECK(document["b"]["predicted"]["problem"]["causal"] == true);
  CHECK(document["a"]["predicted"]["problem"]["seqlen_k"] == 512);
  CHECK(document["b"]["predicted"]["problem"]["seqlen_k"] == 256);
  // What a side predicts is what simulate says of it.
  const Json alone = Json::parse(run_here({"simulate", "--json", "--seqlen", "512", "--bc", "32"}).out);
  CHECK(document["a"]["predicted"] == alone);
}

TEST_CASE("what was not measured is unavailable with a reason, never a number") {
  const Json document = Json::parse(run_here({"compare", "--json", "--seqlen", "77"}).out);
  for (const char* side : {"a", "b"})
    for (const auto& [key, value] : document[side]["measured"].items()) {
      CAPTURE(key);
      REQUIRE(value.is_string());
      CHECK(value.get<std::string>().rfind("unavailable (", 0) == 0);
    }
  const RunResult text = run_here({"compare", "--seqlen", "77"});
  CHECK(contains(text.out, "Measured: unavailable ("));
}

}  // namespace
}  // namespace flashscope
