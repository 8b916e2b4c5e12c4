#include "viz/io/calibration_io.h"

#include <cctype>
#include <cmath>
#include <cstdio>

#include "sim/error.h"
#include "viz/io/json_numbers.h"
#include "viz/io/machine_io.h"
#include "viz/io/version.h"

namespace flashscope {
namespace {

using kernels::Calibration;
using kernels::DeviceInfo;
using kernels::Measured;
using kernels::Reading;

/// What the driver calls the GPU of a shipped description.
struct Known {
  const char* part;  // of the driver's name
  const char* machine;
};
constexpr Known kKnown[] = {
    {"H200", "nvidia-h200"},       {"H100 80GB HBM3", "nvidia-h100-sxm"}, {"A100-SXM4-80GB", "nvidia-a100-80gb-sxm"},
    {"V100-SXM2", "nvidia-v100-sxm2"}, {"RTX 4090", "nvidia-rtx-4090"},      {"Tesla T4", "nvidia-t4"},
};

const char* nearest_by_capability(int capability) {
  if (capability < 75) return "nvidia-v100-sxm2";
  if (capability < 80) return "nvidia-t4";
  if (capability == 80) return "nvidia-a100-80gb-sxm";
  if (capability < 90) return "nvidia-rtx-4090";
  return "nvidia-h100-sxm";
}

/// Four digits: what a microbenchmark repeats.
std::string four_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

/// The value as a description keeps it: six digits, and whole where the field counts.
double rounded(double value) {
  if (value == std::floor(value)) return value;
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  double result = 0;
  std::sscanf(text, "%lf", &result);
  return result;
}

std::string gpu_and_date(const DeviceInfo& info, const std::string& date) {
  return info.name + ", driver " + (info.driver_version.empty() ? "unknown" : info.driver_version) + ", CUDA " +
         info.cuda_version + ", " + date;
}

const Reading* reading_of(const Calibration& calibration, const std::string& field) {
  for (const Reading& reading : calibration.readings)
    if (reading.field == field && reading.value.value) return &reading;
  return nullptr;
}

Quantity calibrated(const Quantity& before, const Reading& reading, const DeviceInfo& info, const std::string& date,
                    bool same_gpu) {
  Quantity quantity;
  quantity.value = rounded(*reading.value.value);
  quantity.source = "calibration";
  quantity.reference = gpu_and_date(info, date) + ", " + reading.method;
  if (reading.samples > 0) {
    quantity.reference += "; median of " + std::to_string(reading.samples) + ", 10th to 90th percentile " +
                          four_digits(reading.p10) + " to " + four_digits(reading.p90);
    quantity.spread = Spread{rounded(reading.p10), rounded(reading.p90), reading.samples, date};
  }
  quantity.documented = before.documented;
  if (before.source != "calibration" && !before.documented)
    quantity.documented = Documented{before.value, before.source, before.reference};
  if (!same_gpu) quantity.documented.reset();  // another GPU's datasheet says nothing about this one
  return quantity;
}

}  // namespace

CalibrationBase calibration_base(const DeviceInfo& info) {
  for (const Known& known : kKnown)
    if (info.name.find(known.part) != std::string::npos) return {load_machine(known.machine), true};
  return {load_machine(nearest_by_capability(info.compute_capability)), false};
}

std::string machine_name_of(const std::string& gpu) {
  std::string name;
  for (const char c : gpu) {
    if (std::isalnum(static_cast<unsigned char>(c)))
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!name.empty() && name.back() != '-')
      name += '-';
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name.empty() ? "gpu" : name;
}

Machine calibrated_machine(const CalibrationBase& base, const DeviceInfo& info, const Calibration& calibration,
                           const std::string& date) {
  Machine machine = base.machine;
  if (!base.same_gpu) {
    machine.name = machine_name_of(info.name);
    machine.title = info.name;
  }
  machine.note = "Calibrated by " + version_line() + " on " + gpu_and_date(info, date) +
                 ". Fields whose source is not calibration could not be measured" +
                 (base.same_gpu ? "." : " and are those of the " + base.machine.title + ".");
  for (const MachineField& field : machine_fields()) {
    Quantity& quantity = machine.*field.member;
    if (const Reading* reading = reading_of(calibration, field.key))
      quantity = calibrated(quantity, *reading, info, date, base.same_gpu);
    else if (!base.same_gpu)
      quantity.reference = "not measured, taken from the " + base.machine.title + ": " + quantity.reference;
  }
  try {  // it must be a file that --gpu takes
    machine_from_json(json_text(machine_to_json(machine)), "the calibrated machine");
  } catch (const Error& error) {
    throw Error(ErrorKind::verify, std::string(error.what()) +
                                       "; was another program using the GPU? Stop it and calibrate again");
  }
  return machine;
}

Json calibration_to_json(const Machine& machine, const DeviceInfo& info, const Calibration& calibration,
                         const std::string& date) {
  Json readings = Json::array();
  for (const Reading& r : calibration.readings) {
    Json reading = {{"group", r.group}, {"name", r.name}, {"unit", r.unit}};
    if (r.value.value) {
      reading["value"] = json_number(rounded(*r.value.value));
      if (r.samples > 0) {
        reading["p10"] = json_number(rounded(r.p10));
        reading["p90"] = json_number(rounded(r.p90));
      }
      reading["samples"] = r.samples;
      reading["method"] = r.method;
    } else {
      reading["unavailable"] = r.value.reason;
    }
    if (!r.field.empty()) reading["field"] = r.field;
    readings.push_back(reading);
  }
  Json document = machine_to_json(machine);
  document["calibration"] = {{"gpu", info.name},           {"driver", info.driver_version},
                             {"cuda", info.cuda_version},  {"date", date},
                             {"readings", readings}};
  stamp(document);
  return document;
}

Calibration calibration_from_json(std::string_view text, const std::string& file) {
  const Json document = parse_json(text, file);
  const std::string place = file + ": calibration";
  const Json& list = required_member(required_member(document, "calibration", file), "readings", place);
  if (!list.is_array()) throw Error(ErrorKind::input, place + ".readings: must be a list");
  Calibration calibration;
  for (std::size_t n = 0; n < list.size(); ++n) {
    const Json& object = list[n];
    const std::string at = place + ".readings[" + std::to_string(n) + "]";
    Reading r;
    r.group = string_member(object, "group", at);
    r.name = string_member(object, "name", at);
    r.unit = string_member(object, "unit", at);
    if (object.contains("unavailable")) {
      r.value = Measured<double>::unavailable(string_member(object, "unavailable", at));
    } else {
      r.value = Measured<double>::of(number_member(object, "value", at));
      r.samples = static_cast<int>(integer_member(object, "samples", 0, INT32_MAX, at));
      r.p10 = r.samples > 0 ? number_member(object, "p10", at) : *r.value.value;
      r.p90 = r.samples > 0 ? number_member(object, "p90", at) : *r.value.value;
      r.method = string_member(object, "method", at);
    }
    if (object.contains("field")) r.field = string_member(object, "field", at);
    calibration.readings.push_back(std::move(r));
  }
  return calibration;
}

}  // namespace flashscope
