#include "viz/core/validated_row.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/error.h"
#include "sim/schedule/algorithms.h"
#include "viz/core/settings.h"

namespace flashscope::viz {
namespace {

ValidatedValue only_measured(const kernels::Measured<double>& measured) {
  return {0, measured, measured.value ? Standing::not_predicted : Standing::unavailable};
}

ValidatedValue only_measured(const kernels::Measured<std::int64_t>& bytes) {
  return only_measured(bytes.value ? kernels::Measured<double>::of(static_cast<double>(*bytes.value))
                                   : kernels::Measured<double>::unavailable(bytes.reason));
}

void compare_bytes(ValidatedValue& value, std::int64_t predicted) {
  value.predicted = static_cast<double>(predicted);
  if (!value.measured.value) return;
  const double counted = *value.measured.value;
  value.standing = std::max(value.predicted, counted) < kCounterResolution ? Standing::below_resolution
                   : std::fabs(value.predicted - counted) <= kByteAllowance ? Standing::within_bytes
                                                                            : Standing::counted;
}

void compare_time(ValidatedValue& value, double predicted) {
  value.predicted = predicted;
  if (!value.measured.value) return;
  const double timed = *value.measured.value;
  value.standing = timed >= kShortUs                                    ? Standing::counted
                   : std::fabs(predicted - timed) <= kShortAllowanceUs ? Standing::within_short
                                                                       : Standing::over_short;
}

std::string wrong_output_of(const RecordingRow& recorded) {
  std::string text;
  for (const auto& [name, v] : kernels::verifications(recorded.measured, recorded.problem.pass))
    if (!v.passed) text += (text.empty() ? "" : "; ") + name + (v.worst.empty() ? "" : " at " + v.worst);
  return text;
}

void set_standing(ValidatedRow& row, Standing standing, std::initializer_list<MeasuredQuantity> of) {
  for (MeasuredQuantity quantity : of)
    if (ValidatedValue& value = row.values[place_of(quantity)]; value.measured.value) value.standing = standing;
}

}  // namespace

const std::vector<Entry<MeasuredQuantity>>& quantities() {
  static const std::vector<Entry<MeasuredQuantity>> list = {
      {MeasuredQuantity::time, "time", "time", "first CTA start to last CTA end, at the recorded clock"},
      {MeasuredQuantity::sm_read, "sm_read", "SM read", "from L2 to the SMs, in whole sectors"},
      {MeasuredQuantity::sm_write, "sm_write", "SM write", "from the SMs to L2, in whole sectors"},
      {MeasuredQuantity::hbm_read, "hbm_read", "HBM read", "what L2 did not hold"},
      {MeasuredQuantity::hbm_write, "hbm_write", "HBM write", "written back, dirty lines included"},
  };
  return list;
}

std::string name_in_files(MeasuredQuantity quantity) {
  return std::string(entry_of(quantities(), quantity).key) + (quantity == MeasuredQuantity::time ? "_us" : "_bytes");
}

const char* remark_on(Standing standing) {
  switch (standing) {
    case Standing::counted: return "";
    case Standing::within_bytes: return "within 64 KiB";
    case Standing::over_short: return "over 1.5 µs off";
    case Standing::within_short: return "within 1.5 µs";
    case Standing::below_resolution: return "below counter resolution";
    case Standing::warm: return "cache-warm: L2 held some of it before";
    case Standing::not_drained: return "not drained: some of it may still be in L2";
    case Standing::unavailable: return "unavailable";
    case Standing::not_predicted: return "not predicted";
    case Standing::wrong_output: return "wrong output: not compared";
  }
  return "";
}

bool ValidatedValue::is_counted() const {
  return standing == Standing::counted || standing == Standing::within_bytes || standing == Standing::over_short;
}

std::optional<double> ValidatedValue::error() const {
  if (!measured.value || standing == Standing::not_predicted || standing == Standing::wrong_output) return std::nullopt;
  if (*measured.value == 0) return predicted == 0 ? 0 : std::numeric_limits<double>::infinity();
  return (predicted - *measured.value) / *measured.value;
}

bool is_hard_row(const RecordingRow& recorded, const Machine& machine) {
  const AttentionProblem& p = recorded.problem;
  const double l2 = machine.l2_bytes.value;
  const double scores = static_cast<double>(p.num_heads()) * p.seqlen_q * p.seqlen_k * element_bytes(p.dtype);
  if (scores >= l2 / 4 && scores <= 4 * l2) return true;
  const auto& reads = recorded.measured.hbm_read_bytes.value;
  if (!reads) return false;
  const auto least = static_cast<double>(compulsory_read_bytes(p));
  return static_cast<double>(*reads) > least + std::max(0.05 * least, kByteAllowance);
}

ValidatedRow validated_row(const RecordingRow& recorded, const Machine& machine,
                           const std::function<bool(double)>& progress) {
  ValidatedRow row;
  row.algorithm = recorded.algorithm;
  row.described = describe(recorded.problem);
  row.problem = recorded.problem;
  row.wrong_output = wrong_output_of(recorded);
  const kernels::Measurement& m = recorded.measured;
  row.values = {only_measured(m.time_us), only_measured(m.sm_read_bytes), only_measured(m.sm_write_bytes),
                only_measured(m.hbm_read_bytes), only_measured(m.hbm_write_bytes)};
  using enum MeasuredQuantity;
  try {
    const auto schedule = make_schedule(recorded.algorithm, recorded.problem, recorded.tile);
    row.hard = is_hard_row(recorded, machine);
    RunOptions options;
    options.start = recorded.start;
    options.progress = progress;
    const Prediction prediction = simulate(*schedule, at_measured_clock(machine, m), options);
    const PredictedQuantities p = quantities_of(prediction);
    compare_time(row.values[place_of(time)], p.time_us);
    compare_bytes(row.values[place_of(sm_read)], p.sm_read_bytes);
    compare_bytes(row.values[place_of(sm_write)], p.sm_write_bytes);
    compare_bytes(row.values[place_of(hbm_read)], p.hbm_read_bytes);
    compare_bytes(row.values[place_of(hbm_write)], p.hbm_write_bytes);
    row.dirty_bytes = prediction.hbm_dirty_bytes;
    row.after_freeze = recorded.predicted && is_unmoved(*recorded.predicted, p);
  } catch (const Error& error) {  // e.g. a tile that this machine's SMs cannot hold
    row.refusal = error.what();
    return row;
  }
  if (recorded.start == Start::warm) set_standing(row, Standing::warm, {hbm_read, hbm_write});
  if (!row.wrong_output.empty())
    set_standing(row, Standing::wrong_output, {time, sm_read, sm_write, hbm_read, hbm_write});
  return row;
}

}  // namespace flashscope::viz
