// A calibration made into a machine file: fields, what stands beside them, and the way there and back.
#include "viz/io/calibration_io.h"

#include <doctest/doctest.h>

#include "tests/support/temporary_folder.h"
#include "tests/support/throws_error.h"
#include "viz/io/json_numbers.h"
#include "viz/io/machine_io.h"

namespace flashscope {
namespace {

using kernels::Calibration;
using kernels::DeviceInfo;
using kernels::Reading;

DeviceInfo gpu(const char* name, int capability) {
  DeviceInfo info;
  info.name = name;
  info.compute_capability = capability;
  info.driver_version = "580.1";
  info.cuda_version = "13.0";
  return info;
}

Reading reading(const char* field, const char* unit, std::vector<double> samples) {
  Reading r = kernels::summarise("group", std::string("reading of ") + field, unit, samples, "by a test");
  r.field = field;
  return r;
}

Calibration three() {
  return {{reading("hbm_read_gb_per_s", "GB/s", {4400, 4500, 4600}), reading("barrier_ns", "ns", {20.25}),
           kernels::unmeasured("wgmma", "all", "FLOP/clk/SM", "no such instruction")}};
}

TEST_CASE("a measured field has value, spread, date and the datasheet's number; the others stay") {
  const CalibrationBase base = calibration_base(gpu("NVIDIA H200", 90));
  CHECK(base.same_gpu);
  const Machine m = calibrated_machine(base, gpu("NVIDIA H200", 90), three(), "2026-11-30");
  CHECK(m.name == "nvidia-h200");
  CHECK(m.hbm_read_gb_per_s.value == 4500);
  CHECK(m.hbm_read_gb_per_s.source == "calibration");
  CHECK(m.hbm_read_gb_per_s.reference.find("NVIDIA H200, driver 580.1, CUDA 13.0, 2026-11-30, by a test") == 0);
  REQUIRE(m.hbm_read_gb_per_s.spread);
  CHECK(m.hbm_read_gb_per_s.spread->p10 == doctest::Approx(4420));
  CHECK(m.hbm_read_gb_per_s.spread->samples == 3);
  CHECK(m.hbm_read_gb_per_s.spread->date == "2026-11-30");
  REQUIRE(m.hbm_read_gb_per_s.documented);
  CHECK(m.hbm_read_gb_per_s.documented->value == 4800);
  REQUIRE(m.barrier_ns.documented);
  CHECK(m.barrier_ns.documented->source == "published");
  CHECK(m.barrier_ns.documented->value == base.machine.barrier_ns.value);
  CHECK(m.l2_latency_ns.value == base.machine.l2_latency_ns.value);
  CHECK(m.l2_latency_ns.source == base.machine.l2_latency_ns.source);

  // Calibrated again from the calibrated description, the documented number is still the document's.
  const Machine again = calibrated_machine({m, true}, gpu("NVIDIA H200", 90), three(), "2026-12-01");
  CHECK(again.barrier_ns.documented->value == base.machine.barrier_ns.value);
}

TEST_CASE("a GPU without a description takes the nearest one's numbers and says so") {
  const DeviceInfo info = gpu("NVIDIA L40S (lab 3)", 89);
  const CalibrationBase base = calibration_base(info);
  CHECK_FALSE(base.same_gpu);
  CHECK(base.machine.name == "nvidia-rtx-4090");
  const Machine m = calibrated_machine(base, info, three(), "2026-11-30");
  CHECK(m.name == "nvidia-l40s-lab-3");
  CHECK(m.title == info.name);
  CHECK(m.l2_latency_ns.reference.find("not measured, taken from the " + base.machine.title) == 0);
  CHECK_FALSE(m.hbm_read_gb_per_s.documented);
  CHECK(calibration_base(gpu("NVIDIA H100 PCIe", 90)).same_gpu == false);
  CHECK(calibration_base(gpu("NVIDIA H100 80GB HBM3", 90)).same_gpu);
  CHECK(calibration_base(gpu("Tesla T4", 75)).machine.name == "nvidia-t4");
  CHECK(machine_name_of("  ") == "gpu");
}

TEST_CASE("the file written is one that --gpu takes, and nothing is lost on the way") {
  const DeviceInfo info = gpu("NVIDIA H200", 90);
  const Machine m = calibrated_machine(calibration_base(info), info, three(), "2026-11-30");
  const TemporaryFolder folder;
  put_bytes(folder.path("mine.json"), json_text(calibration_to_json(m, info, three(), "2026-11-30")));
  const Machine read = load_machine(folder.path("mine.json"));
  CHECK(json_text(machine_to_json(read)) == json_text(machine_to_json(m)));
  CHECK(read.hbm_read_gb_per_s.spread->p90 == m.hbm_read_gb_per_s.spread->p90);
  CHECK(read.barrier_ns.documented->reference == m.barrier_ns.documented->reference);

  const std::string text = json_text(calibration_to_json(m, info, three(), "2026-11-30"));
  const Calibration back = calibration_from_json(text, "mine.json");
  REQUIRE(back.readings.size() == 3);
  CHECK(*back.readings[0].value.value == 4500);
  CHECK(back.readings[0].field == "hbm_read_gb_per_s");
  CHECK(back.readings[1].samples == 1);
  CHECK_FALSE(back.readings[2].value.value);
  CHECK(back.readings[2].value.reason == "no such instruction");
  CHECK(json_text(calibration_to_json(m, info, back, "2026-11-30")) == text);
}

TEST_CASE("values that no machine can have are refused, by name, before anything is written") {
  const DeviceInfo info = gpu("NVIDIA H200", 90);
  const CalibrationBase base = calibration_base(info);
  const auto refused = [&](Calibration calibration) {
    return thrown_by([&] { calibrated_machine(base, info, calibration, "2026-11-30"); });
  };
  const Thrown range = refused({{reading("exps_per_clk", "op/clk/SM", {0.25})}});
  CHECK(range.kind == ErrorKind::verify);
  CHECK(range.says("exps_per_clk"));
  const Thrown order = refused({{reading("l2_latency_ns", "ns", {900}), reading("l2_far_latency_ns", "ns", {200})}});
  CHECK(order.kind == ErrorKind::verify);
  CHECK(order.says("l2_latency_ns"));
}

TEST_CASE("faults in what a calibration left in a file are named with their place") {
  const DeviceInfo info = gpu("NVIDIA H200", 90);
  const Machine m = calibrated_machine(calibration_base(info), info, three(), "2026-11-30");
  const Json good = calibration_to_json(m, info, three(), "2026-11-30");
  const auto read = [&](auto change) {
    Json bad = good;
    change(bad);
    return thrown_by([&] {
      machine_from_json(json_text(bad), "gpu.json");
      calibration_from_json(json_text(bad), "gpu.json");
    });
  };
  const auto says = [&](auto change, const char* place) {
    const Thrown thrown = read(change);
    CAPTURE(place);
    CHECK(thrown.kind == ErrorKind::input);
    CHECK(thrown.says(place));
  };
  says([](Json& d) { d["barrier_ns"]["documented"]["source"] = "hearsay"; }, "gpu.json: barrier_ns.documented.source");
  says([](Json& d) { d["barrier_ns"]["documented"].erase("value"); }, "gpu.json: barrier_ns.documented");
  says([](Json& d) { d["barrier_ns"]["spread"]["samples"] = 0; }, "gpu.json: barrier_ns.spread");
  says([](Json& d) { d["barrier_ns"]["spread"] = 3; }, "gpu.json: barrier_ns.spread");
  says([](Json& d) { d.erase("calibration"); }, "\"calibration\" is missing");
  says([](Json& d) { d["calibration"]["readings"] = 4; }, "gpu.json: calibration.readings");
  says([](Json& d) { d["calibration"]["readings"][1].erase("value"); }, "gpu.json: calibration.readings[1]");
  says([](Json& d) { d["calibration"]["readings"][0]["p10"] = "much"; }, "gpu.json: calibration.readings[0]");
}

}  // namespace
}  // namespace flashscope
