// Predicted beside recorded: the rows of the table on the right. Each value is there or says why it is not.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "sim/engine/engine.h"
#include "viz/core/settings.h"
#include "viz/io/recording.h"

namespace flashscope::viz {

struct ComparisonRow {
  enum class Kind { bytes, time };
  std::string label;
  Kind kind = Kind::bytes;
  kernels::Measured<double> predicted;  // bytes, or µs
  kernels::Measured<double> measured;
  std::string note;  // what exactly is compared, and why the two may differ

  /// predicted / measured; nothing where one is missing or the measured value is 0.
  std::optional<double> ratio() const;
  /// Predicted over measured as a difference: "+3.1 %"; "" where one is missing.
  std::string error_text() const;
  /// "131 kB", "12.3 µs".
  std::string value_text(double value) const;
};

struct Comparison {
  std::string algorithm;
  std::string measured_from;  // "recorded on NVIDIA H200, 2026-11-29", or why there is no measurement
  bool has_measurement = false;
  std::vector<ComparisonRow> rows;
};

/// What one algorithm's whole run is known to do. Formulas come at once, HBM bytes and time when the timed run ends.
struct WholeRun {
  kernels::Measured<KernelCount> count;
  ClosedForm closed_form;
  std::int64_t compulsory_bytes = 0;
  kernels::Measured<Prediction> prediction;
  /// At the SM clock of the recorded row, where there is one with a clock: what a recorded time is compared with.
  std::optional<double> time_us_at_recorded_clock = std::nullopt;
};

/// The recorded row of this algorithm and these settings; nullptr when there is none.
const RecordingRow* recorded_row(const Settings& settings, const std::string& algorithm,
                                 const std::vector<Recording>& recordings);

/// WholeRun::time_us_at_recorded_clock of a run that was simulated with these options; nothing where `row` is nullptr
/// or its clock was not read.
std::optional<double> time_us_at_clock_of(const RecordingRow* row, const Schedule& schedule, const Machine& machine,
                                          const RunOptions& options, const Prediction& prediction);

Comparison compare(const Settings& settings, const std::string& algorithm, const WholeRun& run,
                   const std::vector<Recording>& recordings);

}  // namespace flashscope::viz
