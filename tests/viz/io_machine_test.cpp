// The shipped machine descriptions: every number has a source, a place and a reasonable size.
#include "viz/io/machine_io.h"

#include <doctest/doctest.h>

#include <cmath>
#include <regex>
#include <string>

#include "tests/support/temporary_folder.h"
#include "tests/support/throws_error.h"
#include "viz/io/json_numbers.h"

namespace flashscope {
namespace {

TEST_CASE("six GPUs are shipped, each under its own name") {
  const std::vector<std::string> expected = {"nvidia-a100-80gb-sxm", "nvidia-h100-sxm", "nvidia-h200",
                                             "nvidia-rtx-4090",      "nvidia-t4",       "nvidia-v100-sxm2"};
  CHECK(machine_names() == expected);
  for (const std::string& name : machine_names()) {
    const Machine machine = load_machine(name);
    CHECK(machine.name == name);
    CHECK(machine.title.compare(0, 7, "NVIDIA ") == 0);
    CHECK_FALSE(machine.note.empty());
  }
}

TEST_CASE("every parameter says where it comes from, and a calibration names the GPU and the date") {
  for (const std::string& name : machine_names()) {
    const Machine machine = load_machine(name);
    for (const MachineField& field : machine_fields()) {
      const Quantity& quantity = machine.*field.member;
      CAPTURE(name);
      CAPTURE(field.key);
      CHECK(quantity.value >= field.lo);
      CHECK(quantity.value <= field.hi);
      CHECK(quantity.reference.size() > 8);
      if (quantity.source == "calibration") {
        CHECK(name == "nvidia-h200");
        CHECK(quantity.reference.find("NVIDIA H200") != std::string::npos);
        CHECK(std::regex_search(quantity.reference, std::regex("20[0-9]{2}-[01][0-9]-[0-3][0-9]")));
      }
    }
  }
}

TEST_CASE("the datasheets' peaks follow from SMs, clock and rates") {
  struct Peak {
    const char* name;
    double fp32, fp16, fp8;  // TFLOP/s, dense; 0: none
    double clock_mhz;        // the datasheet's, where it is not the highest
  };
  // The H100 and H200 tensor peaks are those at 1830 MHz, their float32 peak that at 1980 MHz.
  for (const Peak& peak : {Peak{"nvidia-h200", 67, 989.4, 1978.9, 1830}, Peak{"nvidia-h100-sxm", 67, 989.4, 1978.9, 1830},
                           Peak{"nvidia-a100-80gb-sxm", 19.5, 312, 0, 1410}, Peak{"nvidia-v100-sxm2", 15.7, 125, 0, 1530},
                           Peak{"nvidia-rtx-4090", 82.6, 165.2, 330.3, 2520}, Peak{"nvidia-t4", 8.1, 65, 0, 1590}}) {
    CAPTURE(peak.name);
    const Machine m = load_machine(peak.name);
    const auto tflops = [&](const Quantity& rate, double mhz) { return m.num_sms.value * mhz * rate.value / 1e6; };
    CHECK(tflops(m.fma_flops_per_clk, m.sm_clock_mhz.value) == doctest::Approx(peak.fp32).epsilon(0.01));
    CHECK(tflops(m.tensor_fp16_flops_per_clk, peak.clock_mhz) == doctest::Approx(peak.fp16).epsilon(0.01));
    CHECK(tflops(m.tensor_fp8_flops_per_clk, peak.clock_mhz) == doctest::Approx(peak.fp8).epsilon(0.01));
  }
}

TEST_CASE("measured bandwidth stays below the datasheet's peak, L2 above HBM, and L2 below the SMs' ports") {
  const std::pair<const char*, double> peaks[] = {{"nvidia-h200", 4800},      {"nvidia-h100-sxm", 3350},
                                                  {"nvidia-a100-80gb-sxm", 2039}, {"nvidia-v100-sxm2", 900},
                                                  {"nvidia-rtx-4090", 1008},  {"nvidia-t4", 320}};
  for (const auto& [name, peak] : peaks) {
    CAPTURE(name);
    const Machine m = load_machine(name);
    CHECK(m.hbm_read_gb_per_s.value < peak);
    CHECK(m.hbm_read_gb_per_s.value > 0.8 * peak);
    CHECK(m.hbm_write_gb_per_s.value < peak);
    CHECK(m.l2_gb_per_s.value > m.hbm_read_gb_per_s.value);
    const double ports = m.num_sms.value * m.sm_clock_mhz.value * m.l2_bytes_per_clk_per_sm.value / 1e3;
    CHECK(m.l2_gb_per_s.value < ports);
    CHECK(m.l2_latency_ns.value < m.hbm_latency_ns.value);
  }
}

TEST_CASE("a machine written and read again is the same") {
  for (const std::string& name : machine_names()) {
    const Machine machine = load_machine(name);
    const Machine again = machine_from_json(json_text(machine_to_json(machine)), "again.json");
    CHECK(again.note == machine.note);
    for (const MachineField& field : machine_fields()) {
      CHECK((again.*field.member).value == (machine.*field.member).value);
      CHECK((again.*field.member).source == (machine.*field.member).source);
      CHECK((again.*field.member).reference == (machine.*field.member).reference);
    }
  }
  CHECK(machine_to_json(load_machine("nvidia-h200"))["num_sms"]["value"].dump() == "132");
}

TEST_CASE("a machine file is loaded by its path, and an unknown name lists the known ones") {
  const TemporaryFolder folder;
  Json document = machine_to_json(load_machine("nvidia-t4"));
  document["name"] = "mine";
  put_bytes(folder.path("mine.json"), json_text(document));
  CHECK(load_machine(folder.path("mine.json")).name == "mine");
  const Thrown unknown = thrown_by([] { load_machine("nvidia-h2000"); });
  CHECK(unknown.kind == ErrorKind::usage);
  CHECK(unknown.says("--gpu: 'nvidia-h2000'"));
  CHECK(unknown.says("nvidia-h200, "));
  CHECK(thrown_by([] { load_machine("mine.json"); }).kind == ErrorKind::input);
}

TEST_CASE("each fault in a machine file is named with file and field") {
  const Json good = machine_to_json(load_machine("nvidia-h200"));
  const auto refused = [&](auto change) {
    Json bad = good;
    change(bad);
    return thrown_by([&] { machine_from_json(json_text(bad), "gpu.json"); });
  };
  for (const MachineField& field : machine_fields()) {
    CAPTURE(field.key);
    const std::string place = std::string("gpu.json: ") + field.key;
    CHECK(refused([&](Json& d) { d.erase(field.key); }).says(std::string("\"") + field.key + "\" is missing"));
    CHECK(refused([&](Json& d) { d[field.key]["unit"] = "furlong"; }).says(place + ".unit"));
    CHECK(refused([&](Json& d) { d[field.key]["value"] = field.hi * 2 + 1; }).says(place + ".value"));
    CHECK(refused([&](Json& d) { d[field.key]["value"] = "nan"; }).says(place + ".value"));
    CHECK(refused([&](Json& d) { d[field.key]["source"] = "a friend"; }).says(place + ".source"));
    CHECK(refused([&](Json& d) { d[field.key]["reference"] = ""; }).says(place + ".reference"));
    CHECK(refused([&](Json& d) { d[field.key].erase("reference"); }).says("\"reference\" is missing"));
    CHECK(refused([&](Json& d) { d[field.key] = 7; }).kind == ErrorKind::input);
  }
  CHECK(refused([](Json& d) { d["num_sms"]["value"] = 131.5; }).says("not a whole number"));
  CHECK(refused([](Json& d) { d["smem_bytes_per_cta"]["value"] = 1 << 20; }).says("larger than smem_bytes_per_sm"));
  CHECK(refused([](Json& d) { d = Json::array(); }).says("expected an object"));
}

}  // namespace
}  // namespace flashscope
