#include "viz/core/error_summary.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "sim/schedule/algorithms.h"
#include "viz/core/text.h"

namespace flashscope::viz {
namespace {

void count_reason(ErrorSummary& summary, Standing standing) {
  switch (standing) {
    case Standing::counted:
    case Standing::over_short: break;
    case Standing::within_bytes: ++summary.within_allowance; break;
    case Standing::within_short: ++summary.within_short; break;
    case Standing::below_resolution: ++summary.below_resolution; break;
    case Standing::warm: ++summary.warm; break;
    case Standing::not_drained: ++summary.not_drained; break;
    case Standing::unavailable: ++summary.unavailable; break;
    case Standing::not_predicted: ++summary.not_predicted; break;
    case Standing::wrong_output: ++summary.wrong_output; break;
  }
}

}  // namespace

ErrorSummary summary_of(const std::vector<ValidatedRow>& rows, MeasuredQuantity quantity, const RowGroup& group) {
  ErrorSummary summary;
  std::vector<double> errors;
  for (const ValidatedRow& row : rows) {
    if (!group.holds(row)) continue;
    const ValidatedValue& value = row.value(quantity);
    count_reason(summary, value.standing);
    if (const auto error = value.error(); error && value.is_counted()) errors.push_back(std::fabs(*error));
  }
  summary.rows = static_cast<int>(errors.size());
  if (errors.empty()) return summary;
  std::sort(errors.begin(), errors.end());
  const std::size_t half = errors.size() / 2;
  summary.median = errors.size() % 2 ? errors[half] : (errors[half - 1] + errors[half]) / 2;
  summary.mean = std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size());
  summary.worst = errors.back();
  return summary;
}

int rows_in(const std::vector<ValidatedRow>& rows, const RowGroup& group) {
  return static_cast<int>(std::count_if(rows.begin(), rows.end(), group.holds));
}

const std::vector<RowGroup>& row_sets() {
  static const std::vector<RowGroup> sets = {
      {"all", "all rows", [](const ValidatedRow&) { return true; }, "all", "every row of the recording"},
      {"hard", "hard rows", [](const ValidatedRow& row) { return row.hard; }, "hard",
       "HBM reads recorded above 1.05 times the compulsory ones, or S between a quarter of L2 and four times of it"},
      {"after_freeze", "rows recorded after the model was frozen",
       [](const ValidatedRow& row) { return row.after_freeze; }, "after freeze",
       "the row keeps the prediction made when it was measured, and each quantity is predicted so still, to 0.5 %; any "
       "other row counts as recorded before"},
  };
  return sets;
}

std::vector<RowGroup> row_parts(const std::vector<ValidatedRow>& rows) {
  std::vector<RowGroup> parts;
  for (Pass pass : {Pass::forward, Pass::backward})
    for (const Algorithm& algorithm : algorithms(pass))
      parts.push_back({"algorithm", algorithm.name + (pass == Pass::backward ? " backward" : ""),
                       [name = algorithm.name, pass](const ValidatedRow& row) {
                         return row.algorithm == name && row.problem.pass == pass;
                       },
                       "", ""});
  constexpr int kSizes[] = {0, 1024, 4096, kMaxSeqlen};
  for (std::size_t n = 1; n < std::size(kSizes); ++n) {
    const int lo = kSizes[n - 1], hi = kSizes[n];
    parts.push_back({"size",
                     n + 1 == std::size(kSizes) ? "seqlen above " + grouped(lo)
                                                : "seqlen " + grouped(lo + 1) + " to " + grouped(hi),
                     [lo, hi](const ValidatedRow& row) {
                       const int longer = std::max(row.problem.seqlen_q, row.problem.seqlen_k);
                       return lo < longer && longer <= hi;
                     },
                     "", ""});
  }
  const auto is_empty = [&](const RowGroup& part) { return rows_in(rows, part) == 0; };
  parts.erase(std::remove_if(parts.begin(), parts.end(), is_empty), parts.end());
  return parts;
}

}  // namespace flashscope::viz
