#include "viz/io/machine_io.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "sim/error.h"
#include "viz/io/embedded.h"
#include "viz/io/files.h"
#include "viz/io/json_numbers.h"

namespace flashscope {
namespace {

constexpr std::string_view kSuffix = ".json";

bool ends_with_json(std::string_view name) {
  return name.size() > kSuffix.size() && name.substr(name.size() - kSuffix.size()) == kSuffix;
}

/// Things that are counted; everything else may have a fraction.
bool is_whole(std::string_view unit) {
  for (std::string_view counted : {"SM", "B", "register", "thread", "CTA", "partition", "scheduler", "line"})
    if (unit == counted) return true;
  return false;
}

/// What a calibration keeps beside a value; both parts may be missing.
void read_calibration(Quantity& quantity, const Json& object, const std::string& place) {
  if (object.contains("spread")) {
    const std::string at = place + ".spread";
    const Json& spread = object["spread"];
    quantity.spread = Spread{number_member(spread, "p10", at), number_member(spread, "p90", at),
                             static_cast<int>(integer_member(spread, "samples", 1, INT32_MAX, at)),
                             string_member(spread, "date", at)};
  }
  if (object.contains("documented")) {
    const std::string at = place + ".documented";
    const Json& documented = object["documented"];
    quantity.documented = Documented{number_member(documented, "value", at), string_member(documented, "source", at),
                                     string_member(documented, "reference", at)};
    if (quantity.documented->source != "datasheet" && quantity.documented->source != "published")
      throw Error(ErrorKind::input,
                  at + ".source: \"" + quantity.documented->source + "\" is not one of datasheet, published");
  }
}

Quantity quantity_from_json(const Json& document, const MachineField& field, const std::string& file) {
  const std::string place = file + ": " + field.key;
  const Json& object = required_member(document, field.key, file);
  Quantity quantity;
  quantity.value = number_member(object, "value", place);
  const std::string unit = string_member(object, "unit", place);
  if (unit != field.unit)
    throw Error(ErrorKind::input, place + ".unit: \"" + unit + "\" where \"" + field.unit + "\" is needed");
  if (!(quantity.value >= field.lo && quantity.value <= field.hi))
    throw Error(ErrorKind::input, place + ".value: " + number_text(quantity.value) + " is outside " +
                                      number_text(field.lo) + " … " + number_text(field.hi) + " " + field.unit);
  if (is_whole(field.unit) && quantity.value != std::floor(quantity.value))
    throw Error(ErrorKind::input, place + ".value: " + number_text(quantity.value) + " is not a whole number");
  quantity.source = string_member(object, "source", place);
  if (quantity.source != "datasheet" && quantity.source != "calibration" && quantity.source != "published")
    throw Error(ErrorKind::input,
                place + ".source: \"" + quantity.source + "\" is not one of datasheet, calibration, published");
  quantity.reference = string_member(object, "reference", place);
  if (quantity.reference.empty())
    throw Error(ErrorKind::input,
                place + ".reference: empty; name the document, or the GPU and date of the calibration");
  read_calibration(quantity, object, place);
  return quantity;
}

/// Numbers that are each in range but cannot be true together.
void check_consistency(const Machine& machine, const std::string& file) {
  const auto at_most = [&](const char* key, const Quantity& small, const char* limit, const Quantity& large) {
    if (small.value > large.value)
      throw Error(ErrorKind::input, file + ": " + key + " " + number_text(small.value) + " is larger than " + limit +
                                        " " + number_text(large.value));
  };
  at_most("smem_bytes_per_cta", machine.smem_bytes_per_cta, "smem_bytes_per_sm", machine.smem_bytes_per_sm);
  at_most("smem_bytes_reserved_per_cta", machine.smem_bytes_reserved_per_cta, "smem_bytes_per_sm",
          machine.smem_bytes_per_sm);
  at_most("l2_bytes", machine.l2_bytes, "hbm_bytes", machine.hbm_bytes);
  at_most("l2_latency_ns", machine.l2_latency_ns, "l2_far_latency_ns", machine.l2_far_latency_ns);
  at_most("l2_latency_ns", machine.l2_latency_ns, "hbm_latency_ns", machine.hbm_latency_ns);
}

/// Counts stay integers in the file: 132, not 132.0.
Json plain_number(double value) {
  const bool whole = value == std::floor(value) && std::fabs(value) < 9e15;
  return whole ? Json(static_cast<std::int64_t>(value)) : json_number(value);
}

}  // namespace

std::vector<std::string> machine_names() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded_machines())
    names.emplace_back(file.name.substr(0, file.name.size() - kSuffix.size()));
  std::sort(names.begin(), names.end());
  return names;
}

Machine load_machine(const std::string& name_or_path) {
  for (const EmbeddedFile& file : embedded_machines())
    if (file.name.substr(0, file.name.size() - kSuffix.size()) == name_or_path)
      return machine_from_json(file.content, std::string(file.name));
  if (name_or_path.find('/') != std::string::npos || ends_with_json(name_or_path))
    return machine_from_json(read_text_file(name_or_path), name_or_path);
  std::string names;
  for (const std::string& name : machine_names()) names += name + ", ";
  throw Error(ErrorKind::usage, "--gpu: '" + name_or_path + "' is not one of " + names + "nor a machine file (.json)");
}

Machine machine_from_json(std::string_view text, const std::string& file) {
  const Json document = parse_json(text, file);
  Machine machine;
  machine.name = string_member(document, "name", file);
  if (machine.name.empty()) throw Error(ErrorKind::input, file + ": name: empty");
  machine.title = string_member(document, "title", file);
  machine.note = string_member(document, "note", file);
  for (const MachineField& field : machine_fields()) machine.*field.member = quantity_from_json(document, field, file);
  check_consistency(machine, file);
  return machine;
}

Json machine_to_json(const Machine& machine) {
  Json document;
  document["name"] = machine.name;
  document["title"] = machine.title;
  document["note"] = machine.note;
  for (const MachineField& field : machine_fields()) {
    const Quantity& quantity = machine.*field.member;
    Json object = {{"value", plain_number(quantity.value)},
                   {"unit", field.unit},
                   {"source", quantity.source},
                   {"reference", quantity.reference}};
    if (quantity.spread)
      object["spread"] = {{"p10", plain_number(quantity.spread->p10)},
                          {"p90", plain_number(quantity.spread->p90)},
                          {"samples", quantity.spread->samples},
                          {"date", quantity.spread->date}};
    if (quantity.documented)
      object["documented"] = {{"value", plain_number(quantity.documented->value)},
                              {"source", quantity.documented->source},
                              {"reference", quantity.documented->reference}};
    document[field.key] = object;
  }
  return document;
}

}  // namespace flashscope
