// One row of a recording beside what the model predicts for it, quantity by quantity: what `flashscope validate` prints
// and the Validate view shows.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/machine/machine.h"
#include "viz/core/views.h"
#include "viz/io/recording.h"

namespace flashscope::viz {

/// What is predicted and measured, in the order of ValidatedRow::values.
enum class MeasuredQuantity : std::uint8_t { time, sm_read, sm_write, hbm_read, hbm_write };
inline constexpr std::size_t kNumQuantities = 5;
const std::vector<Entry<MeasuredQuantity>>& quantities();
/// As files call it: "time_us", "sm_read_bytes", …
std::string name_in_files(MeasuredQuantity quantity);
inline std::size_t place_of(MeasuredQuantity quantity) { return static_cast<std::size_t>(quantity); }

/// A difference of so many bytes is no error, and what is smaller than the resolution is not judged: counters count a
/// little more than the kernel.
inline constexpr double kByteAllowance = 64 << 10, kCounterResolution = 2 << 20;
/// Runs shorter than kShortUs are held to an allowance instead of a percentage.
inline constexpr double kShortUs = 10, kShortAllowanceUs = 1.5;

/// How a value stands in the summaries of errors.
enum class Standing : std::uint8_t {
  counted,
  within_bytes,      // of the allowance: counted, and right
  over_short,        // a short run that misses its allowance: counted
  within_short,      // a short run within its allowance: right, and left out, because nobody asks it for a percentage
  below_resolution,  // this and what follows: left out, because it says nothing of the model
  warm,              // L2 held some of it before, and what it held is a guess
  not_drained,       // the counter ended before L2 was written back
  unavailable,
  not_predicted,
  wrong_output,      // whatever the kernel did, it was not attention
};
/// "within 64 KiB"; "" where the error is simply counted.
const char* remark_on(Standing standing);

struct ValidatedValue {
  double predicted = 0;  // bytes, exact up to 2^53, or µs
  kernels::Measured<double> measured;
  Standing standing = Standing::unavailable;

  bool is_counted() const;
  /// (predicted - measured) / measured, infinite where 0 was measured and not predicted; nothing where one is missing
  /// or the output was wrong.
  std::optional<double> error() const;
};

struct ValidatedRow {
  std::size_t index = 0;  // in the recording
  std::string algorithm, described;
  AttentionProblem problem;
  std::string refusal;       // why it could not be predicted: then `values` has what was measured alone
  std::string wrong_output;  // "O at head 3, row 17", or ""
  /// Hard to predict: more was read from HBM than must be, or S is about as large as L2 (is_hard_row()).
  bool hard = false;
  /// Recorded after the model was frozen: the row keeps what was predicted when it was measured, and that is what is
  /// predicted now (is_unmoved()). Every other row counts as recorded before.
  bool after_freeze = false;
  std::array<ValidatedValue, kNumQuantities> values;
  std::int64_t dirty_bytes = 0;  // of predicted HBM writes, in L2 still when the last kernel ends

  const ValidatedValue& value(MeasuredQuantity quantity) const { return values[place_of(quantity)]; }
};

/// HBM reads above 1.05 times (and 64 KiB above) what the pass must read at least, or S between a quarter of L2 and
/// four times of it, whether the algorithm stores S or not.
bool is_hard_row(const RecordingRow& recorded, const Machine& machine);

/// The row predicted for the machine at the row's clock. What the machine cannot run becomes `refusal`; a cancelled run
/// (`progress` returned false) too.
ValidatedRow validated_row(const RecordingRow& recorded, const Machine& machine,
                           const std::function<bool(double)>& progress = {});

}  // namespace flashscope::viz
