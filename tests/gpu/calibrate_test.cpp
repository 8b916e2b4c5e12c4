// A short calibration on the GPU here: every number within what physics and the datasheet allow.
#include <algorithm>
#include <map>

#include "gpu_support.h"
#include "kernels/calibrate/calibration.h"
#include "sim/error.h"

namespace flashscope::kernels {
namespace {

/// Allowed above what a datasheet says: clocks and timers are not perfect.
constexpr double kAbove = 1.03;

struct Bound {
  const char* field;
  double lo, hi;
};

/// What an SM can do in a clock, by compute capability: CUDA C++ Programming Guide, throughput of native arithmetic
/// instructions; tensor rates from the datasheets' peaks.
std::vector<Bound> rates(int capability) {
  if (capability == 90)
    return {{"fma_flops_per_clk", 200, 256},  {"tensor_fp16_flops_per_clk", 3600, 4096},
            {"tensor_fp8_flops_per_clk", 6800, 8192}, {"exps_per_clk", 14, 16},
            {"alu_ops_per_clk", 48, 64},      {"smem_bytes_per_clk", 110, 128}};
  if (capability == 80)
    return {{"fma_flops_per_clk", 100, 128}, {"tensor_fp16_flops_per_clk", 1600, 2048}, {"exps_per_clk", 14, 16},
            {"alu_ops_per_clk", 48, 64},     {"smem_bytes_per_clk", 110, 128}};
  return {{"fma_flops_per_clk", 64, 256}, {"exps_per_clk", 8, 16}, {"smem_bytes_per_clk", 32, 128}};
}

TEST_CASE("a short calibration gives values that are possible") {
  CalibrateOptions options;
  options.launches = 5;
  options.counters = false;
  std::vector<double> shares;
  options.progress = [&](double share, const std::string&) { return shares.push_back(share), true; };
  const Calibration calibration = device().calibrate(options);
  CHECK(std::is_sorted(shares.begin(), shares.end()));

  std::map<std::string, Reading> fields;
  for (const Reading& r : calibration.readings) {
    MESSAGE(r.group, ": ", r.name, " = ", r.value.value.value_or(-1), " ", r.unit, " ", r.value.reason);
    if (!r.value.value) {
      CHECK_FALSE(r.value.reason.empty());
      CHECK(r.field.empty());
      continue;
    }
    CAPTURE(r.name);
    CHECK(*r.value.value > 0);
    CHECK(r.p10 <= *r.value.value);
    CHECK(r.p90 >= *r.value.value);
    if (!r.field.empty()) {
      CHECK(fields.count(r.field) == 0);  // one reading a field
      fields[r.field] = r;
    }
  }
  const auto within = [&](const std::string& field, double lo, double hi) {
    REQUIRE_MESSAGE(fields.count(field) == 1, field);
    const double value = *fields[field].value.value;
    CHECK_MESSAGE((value >= lo && value <= kAbove * hi), field, " ", value, " not in ", lo, " to ", hi);
  };
  const DeviceInfo info = device().info();
  for (const Bound& bound : rates(info.compute_capability)) within(bound.field, bound.lo, bound.hi);
  double peak = 0;
  for (const Reading& r : calibration.readings)
    if (r.name.find("memory peak") == 0) peak = *r.value.value;
  if (peak > 0) {
    within("hbm_read_gb_per_s", 0.7 * peak, peak);
    within("hbm_write_gb_per_s", 0.5 * peak, peak);
  }
  within("num_sms", info.num_sms, info.num_sms);
  within("sm_clock_mhz", 300, 4000);
  within("on_chip_latency_clk", 10, 60);
  within("l2_latency_ns", 50, 500);
  within("l2_far_latency_ns", *fields["l2_latency_ns"].value.value, 1000);
  within("hbm_latency_ns", *fields["l2_far_latency_ns"].value.value, 2000);
  within("l2_gb_per_s", *fields["hbm_read_gb_per_s"].value.value, 30000);
  within("l2_bytes_per_clk_per_sm", 16, 128);
  within("barrier_ns", 2, 100);
  within("cta_start_ns", 20, 10000);
  within("launch_gap_us", 0.2, 20);
}

TEST_CASE("a calibration can be cancelled, and the GPU still works") {
  CalibrateOptions options;
  options.launches = 5;
  int calls = 0;
  options.progress = [&](double, const std::string&) { return ++calls < 4; };
  CHECK_THROWS_WITH_AS(device().calibrate(options), "cancelled", Error);
  CHECK(device().info().num_sms > 0);
}

}  // namespace
}  // namespace flashscope::kernels
