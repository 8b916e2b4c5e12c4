// Predicted against recorded, every row of a recording: what the Validate view shows.
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/machine/machine.h"
#include "viz/core/background.h"
#include "viz/core/figure.h"
#include "viz/core/views.h"
#include "viz/io/recording.h"

namespace flashscope::viz {

/// What is predicted and counted, in the order of ValidatedRow::values.
enum class MeasuredQuantity : std::uint8_t { time, sm_read, sm_write, hbm_read, hbm_write };
inline constexpr std::size_t kNumQuantities = 5;
const std::vector<Entry<MeasuredQuantity>>& quantities();

struct ValidatedValue {
  double predicted = 0;
  kernels::Measured<double> measured;
  bool resolved = true;  // false: below what counters resolve, or within 1.5 µs under 10 µs

  /// (predicted - measured) / measured; nothing where either is missing.
  std::optional<double> error() const;
};

struct ValidatedRow {
  std::size_t index = 0;  // in the recording
  std::string algorithm, problem;
  std::string refusal;  // why it could not be predicted
  std::array<ValidatedValue, kNumQuantities> values;
};

struct ErrorSummary {
  int rows = 0;                            // with an error that counts
  double median = 0, mean = 0, worst = 0;  // of the absolute errors
};

struct Validation {
  std::string origin;  // "NVIDIA H200, 2026-11-29, driver 580.159"; or why there is nothing
  std::string machine;
  std::vector<ValidatedRow> rows;  // those done so far, in the recording's order
  std::size_t total = 0;
};

ErrorSummary summary_of(const Validation& validation, MeasuredQuantity quantity);
/// Places in validation.rows, largest error of the quantity first; rows without one at the end.
std::vector<std::size_t> by_error(const Validation& validation, MeasuredQuantity quantity);
/// Predicted against measured on equal logarithmic axes; a series an algorithm.
Figure validation_figure(const Validation& validation, MeasuredQuantity quantity);

/// Which recording: the first of this machine.
struct ValidateRequest {
  std::string machine;
  bool operator==(const ValidateRequest&) const = default;
};
/// A slice is a row. Each is predicted at the SM clock it was recorded at; short runs first.
std::unique_ptr<SlicedJob<Validation>> make_validation(const ValidateRequest& request,
                                                       const std::vector<Machine>& machines,
                                                       const std::vector<Recording>& recordings);

Sheet sheet_of(const Validation& validation);

}  // namespace flashscope::viz
