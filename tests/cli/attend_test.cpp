// flashscope attend: the eight-key example of tiled attention, step by step, and the user's own files.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tests/cli/support.h"
#include "tests/support/paths.h"
#include "viz/io/json_numbers.h"

namespace flashscope {
namespace {

const std::string kExample = test_data("online_softmax_example.json");

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

TEST_CASE("N08: d_out gives the gradients, with their errors, in JSON and as .npy") {
  const Folder folder;
  write_file(folder / "in.json", R"({"q":[[1],[2]],"k":[[1],[-1]],"v":[[1],[3]],"d_out":[[1],[10]],"scale":0.5})");
  for (const char* algorithm : {"three_pass", "flash_v1", "flash_v2"}) {
    CAPTURE(algorithm);
    const RunResult result = run_here({"attend", folder / "in.json", "--algorithm", algorithm, "--json"});
    REQUIRE(result.code == 0);
    const Json got = Json::parse(result.out);
    CHECK(got["pass"] == "backward");
    CHECK(distance(got["o"], Json::parse("[[[[1.5378828],[1.2384058]]]]")) < 1e-6);
    CHECK(distance(got["d_q"], Json::parse("[[[[-0.3932239],[-2.0998717]]]]")) < 1e-6);
    CHECK(distance(got["d_k"], Json::parse("[[[[-2.2964836],[2.2964836]]]]")) < 1e-6);
    CHECK(distance(got["d_v"], Json::parse("[[[[9.5390294],[1.4609706]]]]")) < 1e-6);
    for (const char* key : {"o", "lse", "d_q", "d_k", "d_v"}) CHECK(got["errors"][key]["max_abs"].get<double>() < 1e-12);
  }
  const RunResult written = run_here({"attend", folder / "in.json", "--out", folder / "."});
  REQUIRE(written.code == 0);
  CHECK(contains(written.out, "d_q.npy, d_k.npy, d_v.npy"));
  // What was written is read again, as q, k, v and d_out.
  const std::string d_q = folder / "d_q.npy", d_k = folder / "d_k.npy", d_v = folder / "d_v.npy";
  const RunResult again = run_here({"attend", "--q", d_q, "--k", d_k, "--v", d_v, "--d-out", d_q, "--json"});
  REQUIRE(again.code == 0);
  CHECK(Json::parse(again.out)["d_v"].is_array());
  CHECK_FALSE(Json::parse(run_here({"attend", "--q", d_q, "--k", d_k, "--v", d_v, "--json"}).out).contains("d_q"));
}

TEST_CASE("N09: dK and dV have the KV heads, and add up over the query heads that share them") {
  const Folder folder;
  write_file(folder / "in.json", R"({"q":[[[[1]],[[2]]]],"k":[[[[0],[1.0986122886681098]]]],"v":[[[[1],[5]]]],
                                     "d_out":[[[[1]],[[2]]]],"scale":1})");
  for (const char* algorithm : {"three_pass", "flash_v1", "flash_v2"}) {
    const Json got = Json::parse(run_here({"attend", folder / "in.json", "--algorithm", algorithm, "--json"}).out);
    CHECK(distance(got["d_q"], Json::parse("[[[[0.8239592]],[[0.7910008]]]]")) < 1e-6);
    CHECK(distance(got["d_k"], Json::parse("[[[[-2.19],[2.19]]]]")) < 1e-6);
    CHECK(distance(got["d_v"], Json::parse("[[[[0.45],[2.55]]]]")) < 1e-6);
  }
}

TEST_CASE("attend takes block masks and packed sequences") {
  const Folder folder;
  write_file(folder / "in.json", R"({"q":[[0],[0],[0]],"k":[[0],[0],[0]],"v":[[1],[2],[4]]})");
  write_file(folder / "mask.json", R"({"block": [2, 1], "rows": ["110", "000"]})");
  const auto o = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"attend", folder / "in.json", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Json::parse(run_here(arguments).out)["o"][0][0];
  };
  CHECK(distance(o({"--block-mask", folder / "mask.json"}), Json::parse("[[1.5],[1.5],[0]]")) < 1e-15);
  CHECK(distance(o({"--cu-seqlens", "0,2,2,3"}), Json::parse("[[1.5],[1.5],[4]]")) < 1e-15);
  CHECK(distance(o({"--cu-seqlens", "0,2,3", "--causal"}), Json::parse("[[1],[1.5],[4]]")) < 1e-15);
}

}  // namespace
}  // namespace flashscope
