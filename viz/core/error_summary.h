// The errors of validated rows in short: over all, over the hard ones, over those recorded after the model was frozen,
// and by rung and size.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "viz/core/validated_row.h"

namespace flashscope::viz {

/// Of one quantity. Errors are absolute, as shares of the measured value.
struct ErrorSummary {
  int rows = 0;                            // with an error that counts
  double median = 0, mean = 0, worst = 0;  // of these
  int within_allowance = 0;                // of these, within 64 KiB
  // The others, one for each reason:
  int within_short = 0, below_resolution = 0, warm = 0, not_drained = 0, unavailable = 0, not_predicted = 0;
  int wrong_output = 0;
};

/// Rows that are summed up together.
struct RowGroup {
  std::string key, title;  // of the three sets: "hard", "hard rows"; of the others "algorithm" or "size", "flash_v2"
  std::function<bool(const ValidatedRow&)> holds;
  const char* label = "";    // of the three sets: short, for a narrow column
  const char* meaning = "";  // of the three sets: one sentence
};

ErrorSummary summary_of(const std::vector<ValidatedRow>& rows, MeasuredQuantity quantity, const RowGroup& group);
int rows_in(const std::vector<ValidatedRow>& rows, const RowGroup& group);

/// "all", "hard", "after_freeze": each is reported, also when it is empty.
const std::vector<RowGroup>& row_sets();
/// One group a rung, then one a size (by the longer of the two sequences); none of them empty.
std::vector<RowGroup> row_parts(const std::vector<ValidatedRow>& rows);

}  // namespace flashscope::viz
