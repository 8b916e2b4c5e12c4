// flashscope measure and doctor with a GPU of the test's own: refused counters, failed checks, recordings.
#include <doctest/doctest.h>

#include "sim/schedule/algorithms.h"
#include "tests/cli/support.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"
#include "viz/io/json_numbers.h"

namespace flashscope {
namespace {

/// A GPU that answers at once.
class FakeDevice final : public kernels::Device {
 public:
  bool counters = true, right = true, d_v_right = true;
  std::int64_t bytes = 4'000'000;
  std::string unsupported;  // algorithm that it cannot run
  std::string lost_at;      // algorithm at which the device is lost

  kernels::DeviceInfo info() const override {
    kernels::DeviceInfo info;
    info.name = "NVIDIA H200";
    info.compute_capability = 90;
    info.num_sms = 132;
    info.driver_version = "1.2";
    info.cuda_version = "13.0";
    info.sm_clock_mhz = kernels::Measured<double>::of(1980);
    info.memory_clock_mhz = kernels::Measured<double>::of(3201);
    return info;
  }
  std::string why_unsupported(const Schedule& schedule) const override {
    return schedule.algorithm() == unsupported ? "this rung needs another GPU" : "";
  }
  AttentionOutputs run(const Schedule& schedule, const AttentionInputs& inputs) override {
    return compute(schedule, inputs);
  }
  kernels::Measurement measure(const Schedule& schedule, const kernels::MeasureOptions& options) override {
    if (schedule.algorithm() == lost_at)
      throw Error(ErrorKind::env, "the GPU session is lost; start the program again");
    if (!right && options.check) throw Error(ErrorKind::verify, schedule.algorithm() + ": O differs at head 0, row 1");
    using Bytes = kernels::Measured<std::int64_t>;
    kernels::Measurement m;
    m.o.passed = m.lse.passed = true;
    m.d_q.passed = m.d_k.passed = true;
    m.d_v.passed = d_v_right;
    m.d_v.worst = d_v_right ? "" : "head 0, row 1, column 2";
    m.time_us = kernels::Measured<double>::of(123.5);
    m.launches = options.launches;
    m.sm_clock_mhz = kernels::Measured<double>::of(1980);
    const Bytes answer = counters ? Bytes::of(bytes) : Bytes::unavailable("no permission (host setting): ask the host");
    m.sm_read_bytes = m.sm_write_bytes = m.hbm_read_bytes = m.hbm_write_bytes = m.hbm_write_floor_bytes = answer;
    return m;
  }
  std::vector<kernels::LoggedOp> log(const Schedule&, const AttentionInputs&) override { return {}; }
};

template <class Change>
OpenDevice fake(Change change) {
  return [change]() -> std::unique_ptr<kernels::Device> {
    auto device = std::make_unique<FakeDevice>();
    change(*device);
    return device;
  };
}

const OpenDevice kWorking = fake([](FakeDevice&) {});
const OpenDevice kNoCounters = fake([](FakeDevice& d) { d.counters = false; });

std::vector<std::string> small(std::vector<std::string> more) {
  more.insert(more.begin(), {"measure", "--heads", "1", "--seqlen", "256"});
  return more;
}

TEST_CASE("predicted stands beside measured") {
  const RunResult result = run_here(small({"--algorithm", "flash_v2"}), kWorking);
  CHECK(result.code == 0);
  CHECK(contains(result.out, "4,000,000 B"));
  CHECK(contains(result.out, "123.5 µs"));
  CHECK(contains(result.out, "SM reads"));
}

TEST_CASE("the ladder is one table, a line a rung, and says why a rung is missing") {
  const RunResult result = run_here(small({"--dtype", "bf16", "--ladder"}),
                                    fake([](FakeDevice& d) { d.unsupported = "flash_v3"; }));
  CHECK(result.code == 0);
  for (const Algorithm& algorithm : algorithms()) CHECK(contains(result.out, algorithm.name));
  CHECK(contains(result.out, "flash_v3: this rung needs another GPU"));
  CHECK(contains(result.out, "of peak"));
  CHECK(contains(result.out, "123.5 µs"));
  CHECK(contains(result.out, "8.00 MB"));  // what that GPU reads and writes
  // 4 · 64 · 256² FLOPs in 123.5 µs, beside 1,024 and 4,096 FLOPs a clock of 132 SMs at 1,980 MHz.
  CHECK(contains(result.out, "0.14"));
  CHECK(run_here(small({"--ladder", "--json"}), kWorking).code == 2);
  CHECK(contains(run_here(small({"--ladder", "--dtype", "bf16"}), kNoCounters).out, "unavailable"));
}

TEST_CASE("C01: refused counters leave the time, give no number, and fail only where they were required") {
  RunResult result = run_here(small({"--algorithm", "flash_v2"}), kNoCounters);
  CHECK(result.code == 0);
  CHECK(contains(result.out, "123.5 µs"));
  CHECK(contains(result.out, "unavailable"));
  CHECK(contains(result.out, "no permission (host setting)"));
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);)
    if (contains(line, "unavailable")) CHECK_FALSE(contains(line, "%"));

  result = run_here(small({"--algorithm", "flash_v2", "--json"}), kNoCounters);
  const Json row = Json::parse(result.out)["rows"][0];
  CHECK(row["measured"]["time_us"] == 123.5);
  CHECK(row["measured"]["hbm_read_bytes"] == "unavailable (no permission (host setting): ask the host)");

  result = run_here(small({"--algorithm", "flash_v2", "--require-counters"}), kNoCounters);
  CHECK(result.code == 4);
  CHECK(contains(result.err, "no permission (host setting)"));
  CHECK(contains(result.out, "123.5 µs"));
  CHECK(run_here(small({"--algorithm", "flash_v2", "--require-counters"}), kWorking).code == 0);
}

TEST_CASE("a failed verification is exit 8, the other rungs are still measured") {
  const RunResult result = run_here(small({}), fake([](FakeDevice& d) { d.right = false; }));
  CHECK(result.code == 8);
  CHECK(contains(result.err, "O differs"));
}

TEST_CASE("a backward pass is measured, recorded and validated with its gradients; a wrong one is exit 8 and no row") {
  const TemporaryFolder folder;
  const std::string file = folder.path("r.json");
  const std::vector<std::string> backward = small({"--pass", "backward", "--algorithm", "flash_v2"});
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), backward.begin(), backward.end());
    return more;
  };
  RunResult result = run_here(with({"--record", file}), fake([](FakeDevice& d) { d.d_v_right = false; }));
  CHECK(result.code == 8);
  CHECK(contains(result.err, "dV differs from the float64 reference, at head 0, row 1, column 2"));
  CHECK_FALSE(std::filesystem::exists(file));

  result = run_here(with({"--record", file}), kWorking);
  CHECK(result.code == 0);
  for (const char* name : {"O right", "LSE right", "dQ right", "dK right", "dV right"})
    CHECK(contains(result.out, name));
  const Json row = Json::parse(run_here(with({"--json"}), kWorking).out)["rows"][0];
  CHECK(row["pass"] == "backward");
  CHECK(row["d_k"]["passed"] == true);
  CHECK(row["predicted"]["pass"] == "backward");

  result = run_here(small({"--algorithm", "flash_v2", "--record", file}), kWorking);  // the same problem's forward pass
  const Json report = Json::parse(run_here({"validate", file, "--json"}).out);
  REQUIRE(report["rows"].size() == 2);
  CHECK(report["rows"][0]["pass"] == "backward");
  CHECK(report["rows"][1]["pass"] == "forward");
  CHECK(report["summary_by"]["algorithm"]["flash_v2 backward"]["time_us"]["rows"] == 1);
  CHECK(report["summary_by"]["algorithm"]["flash_v2"]["time_us"]["rows"] == 1);
  CHECK(contains(run_here({"validate", file}).out, "flash_v2 backward"));
}

TEST_CASE("a rung that cannot run is an error when asked for, and a line among all") {
  const OpenDevice device = fake([](FakeDevice& d) { d.unsupported = "flash_v1"; });
  RunResult result = run_here(small({"--algorithm", "flash_v1"}), device);
  CHECK(result.code == 5);
  CHECK(contains(result.err, "needs another GPU"));
  result = run_here(small({}), device);
  CHECK(result.code == 0);
  CHECK(contains(result.out, "needs another GPU"));
  CHECK(contains(result.out, "flash_v2"));
}

TEST_CASE("E03: a lost device ends the run with its own message") {
  const RunResult result = run_here(small({}), fake([](FakeDevice& d) { d.lost_at = "three_pass"; }));
  CHECK(result.code == 4);
  CHECK(contains(result.err, "session is lost"));
  CHECK_FALSE(contains(result.out, "flash_v2"));
}

TEST_CASE("without a GPU measure is exit 4") {
  const RunResult result = run_here(small({}));
  CHECK(result.code == 4);
  CHECK(is_one_line_error(result));
}

TEST_CASE("--record adds rows and replaces those of the same setting") {
  const Folder folder;
  const std::string path = folder / "recording.json";
  REQUIRE(run_here(small({"--algorithm", "flash_v2", "--record", path}), kWorking).code == 0);
  REQUIRE(run_here(small({"--algorithm", "three_pass", "--record", path}), kWorking).code == 0);
  REQUIRE(run_here(small({"--algorithm", "flash_v2", "--record", path}), kWorking).code == 0);
  const Json recording = Json::parse(read_file(path));
  CHECK(recording["rows"].size() == 2);
  // With what the model said of each.
  const Json said = Json::parse(run_here({"simulate", "--heads", "1", "--seqlen", "256", "--json"}).out);
  const Json& kept = recording["rows"][0]["predicted"];
  CHECK(kept["sm_read_bytes"] == said["sm_sector_read_bytes"]);
  CHECK(kept["hbm_read_bytes"] == said["hbm_read_bytes"]);
  CHECK(kept["hbm_write_bytes"].get<std::int64_t>() ==
        said["hbm_write_bytes"].get<std::int64_t>() + said["hbm_dirty_bytes"].get<std::int64_t>());
  CHECK(kept["time_us"] == said["time_us"]);
  // It is what validate reads.
  const RunResult validated = run_here({"validate", path});
  CHECK(validated.code == 0);
  CHECK(contains(validated.out, "median"));
  CHECK(Json::parse(run_here({"validate", path, "--json"}).out)["rows"].size() == 2);
}

TEST_CASE("compare sets a recording's values beside the predicted ones, with the ratio of both") {
  const Folder folder;
  const std::string path = folder / "recording.json";
  REQUIRE(run_here(small({"--algorithm", "flash_v2", "--algorithm", "three_pass", "--record", path}), kWorking).code ==
          0);
  const std::vector<std::string> both = {"compare", "--heads", "1", "--seqlen", "256", "--recording", path};
  const RunResult text = run_here(both);
  REQUIRE(text.code == 0);
  CHECK(contains(text.out, "Both recorded on NVIDIA H200, "));
  CHECK(contains(text.out, "4,000,000 B"));
  CHECK(contains(text.out, "123.5 µs"));
  CHECK(contains(text.out, "1.00×"));
  std::vector<std::string> one = both;
  one.insert(one.begin() + 1, {"flash_v1", "flash_v2"});
  const RunResult half = run_here(one);  // flash_v1 was not recorded
  REQUIRE(half.code == 0);
  CHECK(contains(half.out, "A the recording of nvidia-h200 has no row for this setting"));
  CHECK(contains(half.out, "unavailable"));
  CHECK(run_here({"compare", "--recording", folder / "missing.json"}).code == 3);
}

TEST_CASE("validate marks what counters cannot resolve, and leaves nothing out") {
  const Folder folder;
  const std::string path = folder / "recording.json";
  const OpenDevice small_counts = fake([](FakeDevice& d) { d.bytes = 1'000'000; });
  REQUIRE(run_here(small({"--algorithm", "flash_v2", "--record", path}), small_counts).code == 0);
  const RunResult csv = run_here({"validate", path, "--csv"});
  CHECK(csv.code == 0);
  CHECK(std::count(csv.out.begin(), csv.out.end(), '\n') == 6);  // header, four byte counts, time
  CHECK(contains(csv.out, "1000000"));
  CHECK(contains(csv.out, "below counter resolution"));
  const Json report = Json::parse(run_here({"validate", path, "--json"}).out);
  const Json summary = report["summary"];
  CHECK(report["summary_by"]["algorithm"].size() == 1);  // of one rung and one size, the parts are the whole
  CHECK(report["summary_by"]["size"].size() == 1);
  for (const auto& by : report["summary_by"])
    for (const auto& part : by) CHECK(part == summary);
  CHECK(summary["sm_read_bytes"]["rows"] == 0);
  CHECK(summary["sm_read_bytes"]["below_counter_resolution"] == 1);
  CHECK(summary["sm_read_bytes"]["median_error"].is_null());
}

TEST_CASE("a recording that cannot be read is not overwritten") {
  const Folder folder;
  for (const char* text : {"{\"rows\": [", "[]", "", "not json"}) {
    write_file(folder / "bad.json", text);
    const RunResult result = run_here(small({"--algorithm", "flash_v2", "--record", folder / "bad.json"}), kWorking);
    CHECK(result.code == 3);
    CHECK(read_file(folder / "bad.json") == text);
  }
  CHECK(run_here(small({"--algorithm", "flash_v2", "--record", folder / "no/file.json"}), kWorking).code == 7);
}

TEST_CASE("--problems runs a list, and a mistake in it is named by place before anything runs") {
  const Folder folder;
  write_file(folder / "list.json", R"([{"heads": 1, "seqlen": 128, "algorithms": ["flash_v2", "three_pass"]},
                                       {"heads": 2, "kv_heads": 1, "seqlen": 64, "causal": true, "algorithms": ["flash_v2"]}])");
  const RunResult result = run_here({"measure", "--problems", folder / "list.json", "--json"}, kWorking);
  REQUIRE(result.code == 0);
  const Json rows = Json::parse(result.out)["rows"];
  REQUIRE(rows.size() == 3);
  CHECK(rows[2]["problem"]["causal"] == true);
  CHECK(rows[2]["problem"]["kv_heads"] == 1);
  CHECK(contains(result.err, "[3/3]"));
  for (const char* bad : {R"([{"heads": 1}, {"seqlen": -1}])", R"([{"colour": 1}])", R"([3])", R"({})",
                          R"([{"algorithms": ["flash_v9"]}])", R"([{"heads": 5, "kv_heads": 2}])"}) {
    write_file(folder / "list.json", bad);
    const RunResult refused = run_here({"measure", "--problems", folder / "list.json"}, kWorking);
    CAPTURE(bad);
    CHECK(refused.code == 3);
    CHECK(contains(refused.err, "list.json"));
    CHECK(refused.out.empty());
  }
}

TEST_CASE("doctor says what counters and kernels do here") {
  CHECK(contains(run_here({"doctor"}, kWorking).out, "passed their self-test"));
  const RunResult refused = run_here({"doctor"}, kNoCounters);
  CHECK(refused.code == 0);
  CHECK(contains(refused.out, "no permission (host setting)"));
  CHECK(run_here({"doctor"}).code == 0);
}

TEST_CASE("attend --device gpu asks the GPU") {
  const RunResult result =
      run_here({"attend", test_data("online_softmax_example.json"), "--device", "gpu", "--json"}, kWorking);
  REQUIRE(result.code == 0);
  CHECK(Json::parse(result.out)["device"] == "gpu");
}

}  // namespace
}  // namespace flashscope
