// `simulate --json`: the contract, key by key, and the laws between its numbers.
#include "viz/io/prediction_io.h"

#include <doctest/doctest.h>

#include <random>

#include "sim/schedule/algorithms.h"
#include "tests/support/random_problem.h"
#include "tests/support/test_machine.h"
#include "tests/support/throws_error.h"
#include "viz/io/json_numbers.h"
#include "viz/io/machine_io.h"

namespace flashscope {
namespace {

TEST_CASE("golden: flash_v2 on the reference problem") {
  AttentionProblem p;
  p.heads = p.kv_heads = 1;
  p.seqlen_q = p.seqlen_k = 1024;
  p.head_dim = 64;
  p.dtype = DType::fp16;
  const auto schedule = make_schedule("flash_v2", p, {64, 64, 1});
  const Machine machine = load_machine("nvidia-h200");
  const Prediction run = simulate(*schedule, machine);
  const std::string time = json_number(run.time_us()).dump(), ctas = std::to_string(run.kernels[0].ctas_per_sm);
  CHECK(run.time > 0);
  CHECK(run.kernels[0].ctas_per_sm > 0);
  const std::string traffic =
      R"("sm_read_bytes":4325376,"sm_write_bytes":135168,"sm_sector_read_bytes":4325376,"sm_sector_write_bytes":135168,)"
      R"("hbm_read_bytes":393216,"hbm_write_bytes":0,"hbm_dirty_bytes":135168,)";
  const std::string tensors =
      R"("tensors":{"Q":{"sm_read_bytes":131072,"sm_write_bytes":0,"hbm_read_bytes":131072,"hbm_write_bytes":0},)"
      R"("K":{"sm_read_bytes":2097152,"sm_write_bytes":0,"hbm_read_bytes":131072,"hbm_write_bytes":0},)"
      R"("V":{"sm_read_bytes":2097152,"sm_write_bytes":0,"hbm_read_bytes":131072,"hbm_write_bytes":0},)"
      R"("O":{"sm_read_bytes":0,"sm_write_bytes":131072,"hbm_read_bytes":0,"hbm_write_bytes":0},)"
      R"("LSE":{"sm_read_bytes":0,"sm_write_bytes":4096,"hbm_read_bytes":0,"hbm_write_bytes":0}})";
  const std::string expected =
      R"({"algorithm":"flash_v2","pass":"forward","problem":{"batch":1,"heads":1,"kv_heads":1,"seqlen_q":1024,)"
      R"("seqlen_k":1024,"head_dim":64,"dtype":"fp16","causal":false,"window":[-1,-1],"block_mask":null,"scale":0.125},)"
      R"("tile":{"br":64,"bc":64,"stages":1,"ctas_per_sm":)" + ctas +
      R"(},"gpu":"nvidia-h200","start":"cold","flops":268435456,"flops_executed":268435456,"exps":1064960,)"
      R"("peak_memory_bytes":528384,"time_us":)" + time + "," + traffic +
      R"("paper_bytes":4456448,"compulsory_bytes":524288,)" + tensors +
      R"(,"kernels":[{"name":"flash_v2","grid":[16,1,1],"ctas_per_sm":)" + ctas +
      R"(,"flops":268435456,"flops_executed":268435456,"exps":1064960,"time_us":)" + time + "," + traffic + tensors +
      "}]}\n";
  CHECK(json_text(prediction_to_json(*schedule, machine, Start::cold, run), -1) == expected);
}

TEST_CASE("kernels add up to the run, tensors to their kernel, and the dirty bytes are a state") {
  std::mt19937 random(20261129);
  const Machine machine = test_machine();
  for (int round = 0; round < 40; ++round) {
    const AttentionProblem p = random_problem(random);
    const TileShape tile = random_tile(p, random);
    for (const Algorithm& algorithm : algorithms()) {
      CAPTURE(algorithm.name);
      CAPTURE(round);
      const auto schedule = make_schedule(algorithm.name, p, tile);
      const Prediction run = simulate(*schedule, machine);
      const Json document = prediction_to_json(*schedule, machine, Start::cold, run);
      for (const char* key : {"flops", "flops_executed", "exps", "sm_read_bytes", "sm_write_bytes",
                              "sm_sector_read_bytes", "sm_sector_write_bytes", "hbm_read_bytes", "hbm_write_bytes"}) {
        CAPTURE(key);
        REQUIRE(document[key].is_number_integer());
        std::int64_t sum = 0;
        for (const Json& kernel : document["kernels"]) sum += kernel[key].get<std::int64_t>();
        CHECK(sum == document[key].get<std::int64_t>());
      }
      double time = 0;
      for (const Json& kernel : document["kernels"]) time += kernel["time_us"].get<double>();
      CHECK(time == doctest::Approx(document["time_us"].get<double>()));
      for (const char* key : {"sm_read_bytes", "sm_write_bytes", "hbm_read_bytes", "hbm_write_bytes"}) {
        std::int64_t sum = 0;
        for (const Json& tensor : document["tensors"]) sum += tensor[key].get<std::int64_t>();
        CHECK(sum == document[key].get<std::int64_t>());
      }
      if (!document["kernels"].empty())
        CHECK(document["kernels"].back()["hbm_dirty_bytes"] == document["hbm_dirty_bytes"]);
      CHECK_FALSE(document.contains("simulated_heads"));
    }
  }
}

TEST_CASE("a run continued from fewer heads says so") {
  AttentionProblem p;
  p.heads = p.kv_heads = 1024;
  p.seqlen_q = p.seqlen_k = 128;
  const auto schedule = make_schedule("flash_v2", p);
  RunOptions options;
  options.op_budget = 100;
  const Prediction run = simulate(*schedule, test_machine(), options);
  REQUIRE(run.simulated_heads < 1024);
  CHECK(prediction_to_json(*schedule, test_machine(), Start::cold, run)["simulated_heads"] == run.simulated_heads);
}

TEST_CASE("a problem written and read again is the same mask, sizes and scale") {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const AttentionProblem p = random_problem(random);
    AttentionProblem again = problem_from_json(parse_json(json_text(problem_to_json(p)), "p"), "p");
    CHECK(again.scale() == p.scale());
    again.softmax_scale = p.softmax_scale;
    again.dense_mask = p.dense_mask;  // of the inputs, not of a file
    CHECK(again == p);
  }
}

std::vector<std::string> fields(const std::string& line) {
  std::vector<std::string> result(1);
  for (char c : line) {
    if (c == ',') result.emplace_back();
    else if (c != '\n') result.back() += c;
  }
  return result;
}

TEST_CASE("CSV: as many fields as columns, the same numbers as the JSON") {
  AttentionProblem p;
  p.seqlen_q = p.seqlen_k = 256;
  const auto schedule = make_schedule("three_pass", p);
  const Prediction run = simulate(*schedule, test_machine());
  const Json document = prediction_to_json(*schedule, test_machine(), Start::warm, run);
  const std::vector<std::string> columns = fields(prediction_csv_header());
  std::vector<std::vector<std::string>> rows;
  std::string text = prediction_csv_rows(*schedule, test_machine(), Start::warm, run, true), line;
  for (char c : text) {
    line += c;
    if (c != '\n') continue;
    rows.push_back(fields(line));
    line.clear();
  }
  REQUIRE(rows.size() == 4);
  CHECK(fields(prediction_csv_rows(*schedule, test_machine(), Start::warm, run)) == rows[0]);
  for (const auto& row : rows) REQUIRE(row.size() == columns.size());
  const std::vector<std::string> kernels = {"all", run.kernels.size() == 3 ? schedule->kernels()[0].name : ""};
  CHECK(rows[0][2] == kernels[0]);
  CHECK(rows[1][2] == kernels[1]);
  for (std::size_t c = 0; c < columns.size(); ++c) {
    if (!document.contains(columns[c])) continue;
    CAPTURE(columns[c]);
    const Json& value = document[columns[c]];
    CHECK(rows[0][c] == (value.is_string() ? value.get<std::string>() : value.dump()));
  }
}

TEST_CASE("CSV fields are quoted when they must be") {
  CHECK(csv_field("plain") == "plain");
  CHECK(csv_field("a,b") == "\"a,b\"");
  CHECK(csv_field("say \"a\"") == "\"say \"\"a\"\"\"");
  CHECK(csv_field("two\nlines") == "\"two\nlines\"");
}

}  // namespace
}  // namespace flashscope
