#include "viz/io/recording.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "sim/error.h"
#include "sim/schedule/algorithms.h"
#include "viz/io/embedded.h"
#include "viz/io/files.h"
#include "viz/io/json_numbers.h"
#include "viz/io/prediction_io.h"
#include "viz/io/version.h"

namespace flashscope {
namespace {

using kernels::Measured;
using kernels::Measurement;
using kernels::Verification;

constexpr std::string_view kSuffix = ".json";

template <class T>
Json measured_to_json(const Measured<T>& measured) {
  if (!measured.value) return {{"unavailable", measured.reason.empty() ? "not measured" : measured.reason}};
  if constexpr (std::is_integral_v<T>) return *measured.value;
  else return json_number(*measured.value);
}

template <class T>
Measured<T> measured_from_json(const Json& object, const char* key, const std::string& place) {
  const Json& member = required_member(object, key, place);
  if (member.is_object()) {
    const std::string reason = string_member(member, "unavailable", place + "." + key);
    if (reason.empty()) throw Error(ErrorKind::input, place + "." + key + ".unavailable: the reason is empty");
    return Measured<T>::unavailable(reason);
  }
  if constexpr (std::is_integral_v<T>)
    return Measured<T>::of(integer_member(object, key, 0, INT64_MAX, place));
  else
    return Measured<T>::of(number_from_json(member, place + "." + key));
}

/// Older recordings have none, and it is in their HBM bytes.
Measured<std::int64_t> background_from_json(const Json& object, const char* key, const std::string& place) {
  if (!object.contains(key)) return Measured<std::int64_t>::unavailable("not measured; not subtracted");
  return measured_from_json<std::int64_t>(object, key, place);
}

/// `!(…)`: "nan" is refused too.
void require_within(double value, double lo, double hi, const std::string& place) {
  if (!(value >= lo && value <= hi))
    throw Error(ErrorKind::input, place + ": " + number_text(value) + " is no value that it can have");
}
/// What was not measured may be missing; a value must be possible.
void require_within(const Measured<double>& measured, double lo, double hi, const std::string& place) {
  if (measured.value) require_within(*measured.value, lo, hi, place);
}

Json verification_to_json(const Verification& v) {
  return {{"passed", v.passed},           {"max_abs", json_number(v.max_abs)},
          {"mean_abs", json_number(v.mean_abs)}, {"tolerance_used", json_number(v.tolerance_used)},
          {"nonfinite", v.nonfinite},     {"worst", v.worst}};
}

Verification verification_from_json(const Json& row, const char* key, const std::string& row_place) {
  const std::string place = row_place + "." + key;
  const Json& object = required_member(row, key, row_place);
  Verification v;
  v.passed = bool_member(object, "passed", place);
  v.max_abs = number_member(object, "max_abs", place);
  v.mean_abs = number_member(object, "mean_abs", place);
  v.tolerance_used = number_member(object, "tolerance_used", place);
  v.nonfinite = integer_member(object, "nonfinite", 0, INT64_MAX, place);
  v.worst = string_member(object, "worst", place);
  return v;
}

Json predicted_to_json(const PredictedQuantities& p) {
  return {{"sm_read_bytes", p.sm_read_bytes},
          {"sm_write_bytes", p.sm_write_bytes},
          {"hbm_read_bytes", p.hbm_read_bytes},
          {"hbm_write_bytes", p.hbm_write_bytes},
          {"time_us", json_number(p.time_us)}};
}

PredictedQuantities predicted_from_json(const Json& object, const std::string& place) {
  const auto bytes = [&](const char* key) { return integer_member(object, key, 0, INT64_MAX, place); };
  PredictedQuantities p = {bytes("sm_read_bytes"), bytes("sm_write_bytes"), bytes("hbm_read_bytes"),
                           bytes("hbm_write_bytes"), number_member(object, "time_us", place)};
  require_within(p.time_us, 0, 1e15, place + ".time_us");
  return p;
}

Json row_to_json(const RecordingRow& row) {
  const Measurement& m = row.measured;
  Json object;
  object["algorithm"] = row.algorithm;
  object["pass"] = name_of(row.problem.pass);
  object["problem"] = problem_to_json(row.problem);
  object["tile"] = tile_to_json(row.tile);
  object["start"] = name_of(row.start);
  object["o"] = verification_to_json(m.o);
  object["lse"] = verification_to_json(m.lse);
  if (row.problem.pass == Pass::backward) {
    object["d_q"] = verification_to_json(m.d_q);
    object["d_k"] = verification_to_json(m.d_k);
    object["d_v"] = verification_to_json(m.d_v);
  }
  object["time_us"] = measured_to_json(m.time_us);
  object["time_spread_us"] = json_number(m.time_spread_us);
  object["launches"] = m.launches;
  object["sm_clock_mhz"] = measured_to_json(m.sm_clock_mhz);
  object["sm_read_bytes"] = measured_to_json(m.sm_read_bytes);
  object["sm_write_bytes"] = measured_to_json(m.sm_write_bytes);
  object["hbm_read_bytes"] = measured_to_json(m.hbm_read_bytes);
  object["hbm_write_bytes"] = measured_to_json(m.hbm_write_bytes);
  object["hbm_write_floor_bytes"] = measured_to_json(m.hbm_write_floor_bytes);
  object["hbm_background_read_bytes"] = measured_to_json(m.hbm_background_read_bytes);
  object["hbm_background_write_bytes"] = measured_to_json(m.hbm_background_write_bytes);
  if (row.predicted) object["predicted"] = predicted_to_json(*row.predicted);
  return object;
}

RecordingRow row_from_json(const Json& object, const std::string& place) {
  RecordingRow row;
  row.algorithm = string_member(object, "algorithm", place);
  const std::string pass = string_member(object, "pass", place);
  if (pass != "forward" && pass != "backward")
    throw Error(ErrorKind::input, place + ".pass: \"" + pass + "\" is not one of forward, backward");
  row.problem = problem_from_json(required_member(object, "problem", place), place + ".problem");
  row.problem.pass = pass_from_name(pass);
  const Json& tile = required_member(object, "tile", place);
  const auto side = [&](const char* key, int hi) {
    return static_cast<int>(integer_member(tile, key, 1, hi, place + ".tile"));
  };
  row.tile = {side("br", 1024), side("bc", 1024), side("stages", 8)};
  if (tile.contains("splits")) row.tile.splits = side("splits", kMaxSplits);
  if (tile.contains("page_size")) {
    row.tile.page_size = static_cast<int>(integer_member(tile, "page_size", kMinPageSize, kMaxPageSize, place + ".tile"));
    if ((row.tile.page_size & (row.tile.page_size - 1)) != 0)
      throw Error(ErrorKind::input, place + ".tile.page_size: " + std::to_string(row.tile.page_size) + " is no power of two");
  }
  if (tile.contains("any_order")) row.tile.any_order = bool_member(tile, "any_order", place + ".tile");
  if (tile.contains("whole_tiles")) row.tile.whole_tiles = bool_member(tile, "whole_tiles", place + ".tile");
  if (tile.contains("kv_order")) {
    const std::string order = string_member(tile, "kv_order", place + ".tile");
    if (order != "forward" && order != "backward")
      throw Error(ErrorKind::input, place + ".tile.kv_order: \"" + order + "\" is not one of forward, backward");
    row.tile.backward_keys = order == "backward";
  }
  const std::string start = string_member(object, "start", place);
  try {
    row.start = start_from_name(start);
  } catch (const Error& error) {
    throw Error(ErrorKind::input, place + ".start: " + error.what());
  }
  Measurement& m = row.measured;
  m.o = verification_from_json(object, "o", place);
  m.lse = verification_from_json(object, "lse", place);
  if (row.problem.pass == Pass::backward) {
    m.d_q = verification_from_json(object, "d_q", place);
    m.d_k = verification_from_json(object, "d_k", place);
    m.d_v = verification_from_json(object, "d_v", place);
  }
  m.time_us = measured_from_json<double>(object, "time_us", place);
  m.time_spread_us = number_member(object, "time_spread_us", place);
  m.launches = static_cast<int>(integer_member(object, "launches", 0, INT32_MAX, place));
  m.sm_clock_mhz = measured_from_json<double>(object, "sm_clock_mhz", place);
  require_within(m.time_us, 0, 1e15, place + ".time_us");
  require_within(m.sm_clock_mhz, 1, 1e5, place + ".sm_clock_mhz");
  require_within(m.time_spread_us, 0, 1e15, place + ".time_spread_us");
  m.sm_read_bytes = measured_from_json<std::int64_t>(object, "sm_read_bytes", place);
  m.sm_write_bytes = measured_from_json<std::int64_t>(object, "sm_write_bytes", place);
  m.hbm_read_bytes = measured_from_json<std::int64_t>(object, "hbm_read_bytes", place);
  m.hbm_write_bytes = measured_from_json<std::int64_t>(object, "hbm_write_bytes", place);
  m.hbm_write_floor_bytes = measured_from_json<std::int64_t>(object, "hbm_write_floor_bytes", place);
  m.hbm_background_read_bytes = background_from_json(object, "hbm_background_read_bytes", place);
  m.hbm_background_write_bytes = background_from_json(object, "hbm_background_write_bytes", place);
  if (object.contains("predicted")) row.predicted = predicted_from_json(object["predicted"], place + ".predicted");
  return row;
}

/// One spelling for each problem.
AttentionProblem canonical(AttentionProblem p) {
  if (p.causal) p.window_right = 0;
  p.causal = p.window_right == 0;
  p.softmax_scale = p.scale();
  return p;
}

bool same_run(const RecordingRow& row, const AttentionProblem& problem, const std::string& algorithm,
              TileShape tile, Start start) {
  if (algorithm != "split_kv") tile.splits = row.tile.splits;  // nobody else has any
  return row.algorithm == algorithm && row.tile == tile && row.start == start &&
         canonical(row.problem) == canonical(problem);
}

}  // namespace

PredictedQuantities quantities_of(const Prediction& p) {
  return {p.count.sm.sector_read, p.count.sm.sector_write, p.hbm.read, p.hbm.write + p.hbm_dirty_bytes, p.time_us()};
}

bool is_unmoved(const PredictedQuantities& then, const PredictedQuantities& now) {
  const auto near = [](auto before, auto after) {
    return std::fabs(static_cast<double>(after) - static_cast<double>(before)) <= kMayMove * static_cast<double>(before);
  };
  return near(then.sm_read_bytes, now.sm_read_bytes) && near(then.sm_write_bytes, now.sm_write_bytes) &&
         near(then.hbm_read_bytes, now.hbm_read_bytes) && near(then.hbm_write_bytes, now.hbm_write_bytes) &&
         near(then.time_us, now.time_us);
}

void set_writer(Recording& recording) {
  recording.version = version();
  recording.commit = commit();
}

void put_row(Recording& recording, RecordingRow row) {
  for (RecordingRow& old : recording.rows)
    if (same_run(old, row.problem, row.algorithm, row.tile, row.start)) {
      old = std::move(row);
      return;
    }
  recording.rows.push_back(std::move(row));
}

const RecordingRow* find_row(const Recording& recording, const AttentionProblem& problem, const std::string& algorithm,
                             const TileShape& tile, Start start) {
  for (const RecordingRow& row : recording.rows)
    if (same_run(row, problem, algorithm, tile, start)) return &row;
  return nullptr;
}

Recording recording_from_json(std::string_view text, const std::string& file) {
  const Json document = parse_json(text, file);
  Recording recording;
  recording.gpu = string_member(document, "gpu", file);
  recording.machine = string_member(document, "machine", file);
  recording.driver = string_member(document, "driver", file);
  recording.cuda = string_member(document, "cuda", file);
  recording.sm_clock_mhz = measured_from_json<double>(document, "sm_clock_mhz", file);
  recording.memory_clock_mhz = measured_from_json<double>(document, "memory_clock_mhz", file);
  require_within(recording.sm_clock_mhz, 1, 1e5, file + ": sm_clock_mhz");
  require_within(recording.memory_clock_mhz, 1, 1e5, file + ": memory_clock_mhz");
  recording.date = string_member(document, "date", file);
  recording.protocol = string_member(document, "protocol", file);
  recording.version = string_member(document, "version", file);
  recording.commit = string_member(document, "commit", file);
  const Json& rows = required_member(document, "rows", file);
  if (!rows.is_array()) throw Error(ErrorKind::input, file + ": rows: expected a list");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string place = file + ": rows[" + std::to_string(i) + "]";
    RecordingRow row = row_from_json(rows[i], place);
    for (std::size_t j = 0; j < i; ++j)
      if (same_run(recording.rows[j], row.problem, row.algorithm, row.tile, row.start))
        throw Error(ErrorKind::input, place + ": rows[" + std::to_string(j) + "] is the same run already (problem, " +
                                          "algorithm, tile and start); keep one of them");
    recording.rows.push_back(std::move(row));
  }
  return recording;
}

Json recording_to_json(const Recording& recording) {
  Json document;
  document["gpu"] = recording.gpu;
  document["machine"] = recording.machine;
  document["driver"] = recording.driver;
  document["cuda"] = recording.cuda;
  document["sm_clock_mhz"] = measured_to_json(recording.sm_clock_mhz);
  document["memory_clock_mhz"] = measured_to_json(recording.memory_clock_mhz);
  document["date"] = recording.date;
  document["protocol"] = recording.protocol;
  document["version"] = recording.version;
  document["commit"] = recording.commit;
  document["rows"] = Json::array();
  for (const RecordingRow& row : recording.rows) document["rows"].push_back(row_to_json(row));
  return document;
}

Recording load_recording(const std::string& path) { return recording_from_json(read_text_file(path), path); }

void save_recording(const std::string& path, const Recording& recording) {
  write_file_atomically(path, json_text(recording_to_json(recording)));
}

Machine at_measured_clock(Machine machine, const Measurement& measured) {
  if (measured.sm_clock_mhz.value) machine.sm_clock_mhz.value = *measured.sm_clock_mhz.value;
  return machine;
}

std::vector<std::string> recording_names() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded_recordings())
    names.emplace_back(file.name.substr(0, file.name.size() - kSuffix.size()));
  std::sort(names.begin(), names.end());
  return names;
}

Recording shipped_recording(const std::string& name) {
  for (const EmbeddedFile& file : embedded_recordings())
    if (file.name.substr(0, file.name.size() - kSuffix.size()) == name)
      return recording_from_json(file.content, std::string(file.name));
  std::string names;
  for (const std::string& known : recording_names()) names += (names.empty() ? "" : ", ") + known;
  throw Error(ErrorKind::usage, "recording '" + name + "' is not one of those shipped: " + (names.empty() ? "none" : names));
}

}  // namespace flashscope
