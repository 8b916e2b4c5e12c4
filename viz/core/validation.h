// All rows of a recording, predicted one by one beside the frame loop: what the Validate view shows.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/machine/machine.h"
#include "viz/core/background.h"
#include "viz/core/error_summary.h"
#include "viz/core/figure.h"
#include "viz/core/validated_row.h"
#include "viz/io/recording.h"

namespace flashscope::viz {

struct Validation {
  std::string origin;  // "NVIDIA H200, 2026-11-29, driver 580.159"; or why there is nothing
  std::string machine;
  std::vector<ValidatedRow> rows;  // those done so far, in the recording's order
  std::size_t total = 0;
};

/// Places in validation.rows, largest error of the quantity first; rows whose error does not count at the end.
std::vector<std::size_t> by_error(const Validation& validation, MeasuredQuantity quantity);
/// Predicted against measured on equal logarithmic axes: the rows of `set`, those of three passes apart from the tiled.
Figure validation_figure(const Validation& validation, MeasuredQuantity quantity,
                         const RowGroup& set = row_sets().front());

/// Which recording: the first of this machine.
struct ValidateRequest {
  std::string machine;
  bool operator==(const ValidateRequest&) const = default;
};
/// What outlives a validation: a row that this program has predicted is not predicted again.
struct ValidationMemory {
  std::map<std::string, std::map<std::size_t, ValidatedRow>> rows;  // by machine and place; of the worker alone
  std::atomic<int> set{0};  // of row_sets(): its rows are looked at, and predicted before the others
};

/// A slice is one row, or two side by side where there are threads. Each is predicted at the SM clock it was recorded
/// at; those of the set that is looked at first, and of these the short runs. `memory` outlives the job.
std::unique_ptr<SlicedJob<Validation>> make_validation(const ValidateRequest& request,
                                                       const std::vector<Machine>& machines,
                                                       const std::vector<Recording>& recordings,
                                                       ValidationMemory* memory = nullptr);

Sheet sheet_of(const Validation& validation);

}  // namespace flashscope::viz
