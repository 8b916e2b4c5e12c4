// flashscope validate --ncu: the user's own kernel, counted by ncu, beside what the options that describe it predict.
#include <doctest/doctest.h>

#include "tests/cli/support.h"

#include <cmath>

#include "viz/io/json_numbers.h"

namespace flashscope {
namespace {

const std::string kHeader = "\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n";

std::string launch(const std::string& id, const std::string& name, const std::string& hbm_write) {
  std::string text;
  const auto line = [&](const std::string& metric, const std::string& unit, const std::string& value) {
    text += "\"" + id + "\",\"" + name + "\",\"" + metric + "\",\"" + unit + "\",\"" + value + "\"\n";
  };
  // What tests/data/h200_peers_counters.csv has of FlashAttention-2, batch 8, 32 heads of 2,048 tokens, head_dim 64.
  line("dram__bytes_read.sum", "Mbyte", "201.50");
  line("dram__bytes_write.sum", "byte", hbm_write);
  line("l1tex__m_xbar2l1tex_read_bytes.sum", "byte", "2,215,945,728");
  line("gpu__time_duration.sum", "usecond", "920.32");
  return text;
}

const std::vector<std::string> kKernel = {"--batch", "8", "--heads", "32", "--seqlen", "2048", "--algorithm",
                                          "flash_v2_tensor", "--br", "128", "--bc", "128", "--ctas-per-sm", "2"};

std::vector<std::string> with(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST_CASE("C03: validate --ncu judges what was counted, and says what was not") {
  const Folder folder;
  const std::string file = folder / "counters.csv";
  write_file(file, "==PROF== Connected\n" + kHeader + launch("0", "flash_fwd", "64,413,696"));
  const RunResult json = run_here(with({"validate", "--ncu", file, "--json"}, kKernel));
  REQUIRE(json.code == 0);
  const Json report = Json::parse(json.out);
  CHECK(report["ncu"]["kernel"] == "flash_fwd");
  CHECK(report["ncu"]["rounded_to_bytes"] == 10'000);
  const Json& row = report["rows"].at(0);
  CHECK(row["sm_read_bytes"]["recorded"] == 2'215'945'728);
  CHECK(std::abs(row["sm_read_bytes"]["error"].get<double>()) < 0.005);
  CHECK(std::abs(row["hbm_read_bytes"]["error"].get<double>()) < 0.05);
  CHECK(row["sm_write_bytes"]["recorded"] ==
        "unavailable (the file has no l1tex__m_l1tex2xbar_write_bytes.sum)");
  CHECK(row["sm_write_bytes"]["error"].is_null());
  // C04: what is dirty in L2 when the kernel ends has not been counted, and is no error of the model.
  CHECK(contains(row["hbm_write_bytes"]["mark"].get<std::string>(), "not drained"));
  const RunResult table = run_here(with({"validate", "--ncu", file}, kKernel));
  CHECK(contains(table.out, "launch 0: flash_fwd"));
  CHECK(contains(table.out, "--print-units base"));
  CHECK(contains(run_here(with({"validate", "--ncu", file, "--csv"}, kKernel)).out, "2215945728"));
}

TEST_CASE("C03: of two kernels the user picks, by name or by number; several only when named") {
  const Folder folder;
  const std::string file = folder / "two.csv";
  write_file(file, kHeader + launch("0", "copy_kernel", "1") + launch("1", "flash_fwd", "64,413,696"));
  const RunResult unasked = run_here(with({"validate", "--ncu", file}, kKernel));
  CHECK(unasked.code == 2);
  CHECK(contains(unasked.err, "copy_kernel"));
  CHECK(contains(unasked.err, "--launch ID,ID"));
  CHECK(run_here(with({"validate", "--ncu", file, "--kernel", "flash"}, kKernel)).code == 0);
  CHECK(run_here(with({"validate", "--ncu", file, "--kernel", "nothing"}, kKernel)).code == 2);
  CHECK(run_here(with({"validate", "--ncu", file, "--launch", "7"}, kKernel)).code == 2);
  CHECK(run_here(with({"validate", "--ncu", file, "--launch", "0,0"}, kKernel)).code == 2);
  CHECK(run_here(with({"validate", "--ncu", file, "--launch", "1", "--kernel", "flash"}, kKernel)).code == 2);
  const RunResult both = run_here(with({"validate", "--ncu", file, "--launch", "0,1", "--json"}, kKernel));
  CHECK(Json::parse(both.out)["rows"].at(0)["hbm_read_bytes"]["recorded"] == 403'000'000);
}

TEST_CASE("C03: a wrong file is exit 3 with its line, and problem options without --ncu are exit 2") {
  const Folder folder;
  const std::string file = folder / "wrong.csv";
  write_file(file, kHeader + "\"0\",\"k\",\"dram__bytes_read.sum\",\"furlong\",\"3\"\n");
  const RunResult wrong = run_here({"validate", "--ncu", file});
  CHECK(wrong.code == 3);
  CHECK(contains(wrong.err, "wrong.csv:2: "));
  write_file(file, kHeader);
  CHECK(contains(run_here({"validate", "--ncu", file}).err, "no measurements"));
  CHECK(run_here({"validate", "--ncu", folder / "absent.csv"}).code == 3);
  CHECK(run_here({"validate", "--seqlen", "512"}).code == 2);
  CHECK(run_here({"validate", "--kernel", "x"}).code == 2);
  CHECK(run_here({"validate", "recording.json", "--ncu", file}).code == 2);
}

TEST_CASE("C04: a warm L2 is labelled and not compared as an error of the model") {
  const Folder folder;
  const std::string file = folder / "warm.csv";
  write_file(file, kHeader + launch("0", "flash_fwd", "64,413,696"));
  const Json report = Json::parse(run_here(with({"validate", "--ncu", file, "--start", "warm", "--json"}, kKernel)).out);
  CHECK(contains(report["rows"].at(0)["hbm_read_bytes"]["mark"].get<std::string>(), "cache-warm"));
}

TEST_CASE("a kernel of somebody else: residency and whole tiles") {
  const std::vector<std::string> cudnn = {"simulate", "--json", "--batch", "3", "--heads", "5", "--seqlen", "1000",
                                          "--algorithm", "flash_v2_tensor", "--br", "128", "--bc", "128"};
  const auto simulated = [&](const std::vector<std::string>& more) { return Json::parse(run_here(with(cudnn, more)).out); };
  const Json plain = simulated({}), whole = simulated({"--persistent", "--whole-tiles"});
  CHECK(plain["sm_read_bytes"] == 32'640'000);
  CHECK(whole["sm_read_bytes"] == 33'423'360);  // 8 query tiles of 128 rows, each with 8 key tiles: 1,024 rows of each
  CHECK(whole["sm_write_bytes"] == plain["sm_write_bytes"]);
  CHECK(whole["paper_bytes"] == plain["paper_bytes"]);
  CHECK(whole["tile"]["ctas_per_sm"] == 1);
  CHECK(whole["tile"]["whole_tiles"] == true);
  CHECK(simulated({"--ctas-per-sm", "2"})["tile"]["ctas_per_sm"] == 2);
  CHECK(run_here(with(cudnn, {"--ctas-per-sm", "30"})).code == 5);
  CHECK(run_here(with(cudnn, {"--ctas-per-sm", "2", "--persistent"})).code == 2);
  CHECK(run_here({"simulate", "--algorithm", "three_pass", "--whole-tiles"}).code == 5);
}

}  // namespace
}  // namespace flashscope
