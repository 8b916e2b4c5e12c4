// flashscope attend: the eight-key example of tiled attention, step by step, and the user's own files.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/cli/support.h"

namespace flashscope {
namespace {

using Json = nlohmann::ordered_json;

const std::string kExample = FLASHSCOPE_TEST_DATA "/online_softmax_example.json";

double distance(const Json& a, const Json& b) {
  if (!a.is_array()) return std::abs(a.get<double>() - b.get<double>());
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t k = 0; k < a.size(); ++k) largest = std::max(largest, distance(a[k], b[k]));
  return largest;
}

TEST_CASE("the eight-key example, tile by tile") {
  const Json expected = Json::parse(read_file(kExample));
  const RunResult result = run_here({"attend", kExample, "--algorithm", "flash_v2", "--br", "1", "--bc", "2", "--dtype",
                                     "fp64", "--steps", "--json"});
  REQUIRE(result.code == 0);
  const Json got = Json::parse(result.out);
  CHECK(distance(got["o"][0][0][0], expected["out_online"]) <= 1e-15);
  CHECK(distance(got["o"][0][0][0], expected["out_full"]) <= 1e-15);
  CHECK(distance(got["lse"][0][0][0], expected["lse"]) <= 1e-15);
  CHECK(got["errors"]["o"]["max_abs"].get<double>() <= 1e-15);
  CHECK(got["errors"]["o"]["nonfinite"] == 0);
  REQUIRE(got["steps"].size() == expected["steps"].size());
  for (std::size_t k = 0; k < got["steps"].size(); ++k) {
    const Json &step = got["steps"][k], &want = expected["steps"][k];
    CHECK(step["cta"] == 0);
    CHECK(step["tile"] == want["tile"]);
    CHECK(distance(step["m"][0], want["m"]) <= 1e-15);
    CHECK(distance(step["l"][0], want["l"]) <= 1e-15);
    CHECK(distance(step["rescale"][0], want["alpha"]) <= 1e-15);
    CHECK(distance(step["acc"][0], want["acc"]) <= 1e-15);
  }
  const RunResult text = run_here({"attend", kExample, "--algorithm", "flash_v2", "--br", "1", "--bc", "2"});
  CHECK(contains(text.out, "not bit for bit"));
}

TEST_CASE("N01: a row without a key is O = 0 and LSE = \"-inf\", and JSON stays strict") {
  const Folder folder;
  write_file(folder / "in.json", R"({"q":[[1],[1]],"k":[[0],[1.0986122886681098]],"v":[[10],[20]],
                                     "mask":[[0,0],[1,1]],"scale":1})");
  for (const char* algorithm : {"three_pass", "flash_v1", "flash_v2"}) {
    const RunResult result = run_here({"attend", folder / "in.json", "--algorithm", algorithm, "--json"});
    REQUIRE(result.code == 0);
    const Json got = Json::parse(result.out);
    CHECK(got["o"][0][0][0][0] == 0.0);
    CHECK(std::abs(got["o"][0][0][1][0].get<double>() - 17.5) < 1e-12);
    CHECK(got["lse"][0][0][0] == "-inf");
    CHECK(got["errors"]["lse"]["nonfinite"] == 0);
  }
}

TEST_CASE("key tiles in the other order give the same attention and other steps") {
  const auto attend = [&](const char* order) {
    return Json::parse(
        run_here({"attend", kExample, "--br", "1", "--bc", "2", "--kv-order", order, "--steps", "--json"}).out);
  };
  const Json forward = attend("forward"), backward = attend("backward");
  CHECK(distance(forward["o"], backward["o"]) <= 1e-15);
  CHECK(forward["steps"][0]["tile"] == 0);
  CHECK(backward["steps"][0]["tile"] == 3);
}

TEST_CASE("a narrow dtype says whose error it is") {
  const RunResult result = run_here({"attend", kExample, "--dtype", "bf16"});
  CHECK(result.code == 0);
  CHECK(contains(result.out, "that of bf16"));
}

TEST_CASE("bad files are exit 3, bad requests exit 2") {
  const Folder folder;
  write_file(folder / "cut.json", R"({"q":[[1],)");
  CHECK(run_here({"attend", folder / "cut.json"}).code == 3);
  CHECK(run_here({"attend", folder / "missing.json"}).code == 3);
  CHECK(run_here({"attend"}).code == 2);
  CHECK(run_here({"attend", kExample, "--q", "q.npy"}).code == 2);
  CHECK(run_here({"attend", "--q", "q.npy"}).code == 2);
  for (const char* scale : {"0", "", "abc", "nan", "inf", "1e999", "0x10", "1 "}) {
    const RunResult result = run_here({"attend", kExample, "--scale", scale});
    CAPTURE(scale);
    CHECK(result.code == 2);
    CHECK(contains(result.err, "--scale"));
  }
  CHECK(run_here({"attend", kExample, "--device", "gpu"}).code == 4);
  CHECK(run_here({"attend", kExample, "--device", "gpu", "--steps"}).code == 2);
}

}  // namespace
}  // namespace flashscope
