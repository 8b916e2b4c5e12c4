// flashscope calibrate with a GPU of the test's own: the table, the file, Ctrl-C, and what is refused.
#include <doctest/doctest.h>

#include <csignal>

#include "kernels/calibrate/calibration.h"
#include "tests/cli/support.h"
#include "viz/io/json_numbers.h"

namespace flashscope {
namespace {

class FakeGpu final : public kernels::Device {
 public:
  bool interrupts = false;

  kernels::DeviceInfo info() const override {
    kernels::DeviceInfo info;
    info.name = "NVIDIA H200";
    info.compute_capability = 90;
    info.driver_version = "580.1";
    info.cuda_version = "13.0";
    return info;
  }
  std::string why_unsupported(const Schedule&) const override { return ""; }
  AttentionOutputs run(const Schedule&, const AttentionInputs&) override { return {}; }
  kernels::Measurement measure(const Schedule&, const kernels::MeasureOptions&) override { return {}; }
  std::vector<kernels::LoggedOp> log(const Schedule&, const AttentionInputs&) override { return {}; }

  kernels::Calibration calibrate(const kernels::CalibrateOptions& options) override {
    if (interrupts) std::raise(SIGINT);
    if (!options.progress(0.5, "HBM bandwidth")) throw Error(ErrorKind::internal, "cancelled");
    const auto samples = static_cast<std::size_t>(options.launches);
    kernels::Reading read =
        kernels::summarise("HBM", "read, in strides", "GB/s", std::vector<double>(samples, 4512.5), "by a test");
    read.field = "hbm_read_gb_per_s";
    return {{read, kernels::summarise("HBM", "read, a stretch a CTA", "GB/s", {4100, 4200}, "by a test"),
             kernels::unmeasured("L2", "size by counters", "MiB", "no permission (host setting)")}};
  }
};

OpenDevice fake(bool interrupts = false) {
  return [interrupts]() -> std::unique_ptr<kernels::Device> {
    auto device = std::make_unique<FakeGpu>();
    device->interrupts = interrupts;
    return device;
  };
}

TEST_CASE("calibrate shows value, datasheet and ratio, every reading, and reasons for the rest") {
  const RunResult result = run_here({"calibrate"}, fake());
  CHECK(result.code == 0);
  CHECK(contains(result.err, "HBM bandwidth"));
  std::istringstream lines(result.out);
  bool field = false, reading = false, kept = false;
  for (std::string line; std::getline(lines, line);) {
    if (contains(line, "hbm_read_gb_per_s") && contains(line, "4,800") && contains(line, "0.940")) field = true;
    if (contains(line, "read, a stretch a CTA") && contains(line, "4,150")) reading = true;
    if (contains(line, "barrier_ns") && contains(line, "published: not measured")) kept = true;
  }
  CHECK(field);
  CHECK(reading);
  CHECK(kept);
  CHECK(contains(result.out, "no permission (host setting)"));
}

TEST_CASE("the machine file of a calibration is taken by --gpu, and --json prints the same") {
  const Folder folder;
  const RunResult result = run_here({"calibrate", "--out", folder / "mine.json"}, fake());
  REQUIRE(result.code == 0);
  CHECK(contains(result.out, "--gpu " + (folder / "mine.json")));
  const Json file = Json::parse(read_file(folder / "mine.json"));
  CHECK(file["hbm_read_gb_per_s"]["value"] == 4512.5);
  CHECK(file["hbm_read_gb_per_s"]["spread"]["samples"] == 20);
  CHECK(file["calibration"]["readings"].size() == 3);
  CHECK(file.contains("flashscope"));
  const RunResult simulated = run_here({"simulate", "--seqlen", "256", "--gpu", folder / "mine.json", "--json"});
  CHECK(simulated.code == 0);
  CHECK(Json::parse(run_here({"calibrate", "--json"}, fake()).out) == file);
}

TEST_CASE("Ctrl-C leaves no file and says so; the handler that was there is back afterwards") {
  const Folder folder;
  struct sigaction before = {}, after = {};
  sigaction(SIGINT, nullptr, &before);  // the test program's own
  const RunResult result = run_here({"calibrate", "--out", folder / "mine.json"}, fake(true));
  CHECK(result.code == 1);
  CHECK(contains(result.err, "cancelled by Ctrl-C; nothing was written"));
  CHECK(result.out.empty());
  CHECK(folder.empty());
  sigaction(SIGINT, nullptr, &after);
  const bool restored = after.sa_handler == before.sa_handler;
  CHECK(restored);
}

TEST_CASE("without a GPU calibrate is exit 4 with the next step, and a bad place for the file is found first") {
  const RunResult none = run_here({"calibrate"});
  CHECK(none.code == 4);
  CHECK(is_one_line_error(none));
  CHECK(contains(none.err, "--gpu: nvidia-a100-80gb-sxm"));
  const Folder folder;
  const RunResult lost = run_here({"calibrate", "--out", folder / "no/such/mine.json"}, fake());
  CHECK(lost.code == 7);
  CHECK_FALSE(contains(lost.err, "HBM bandwidth"));  // nothing ran
}

TEST_CASE("wrong usage of calibrate names the option and the range") {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"calibrate", "--launches", "4"}, {"calibrate", "--launches", "many"}, {"calibrate", "--launches"}}) {
    const RunResult result = run_here(arguments, fake());
    CHECK(result.code == 2);
    CHECK(contains(result.err, "--launches"));
    CHECK(contains(result.err, "5 … 10000"));
  }
  CHECK(run_here({"calibrate", "--out"}, fake()).code == 2);
  CHECK(run_here({"calibrate", "--out", ""}, fake()).code == 2);
  CHECK(run_here({"calibrate", "stray"}, fake()).code == 2);
  CHECK(run_here({"calibrate", "--seqlen", "4"}, fake()).code == 2);  // no problem options: no attention kernel runs
}

}  // namespace
}  // namespace flashscope
