#include "viz/core/byte_table.h"

#include <algorithm>
#include <cmath>

#include "sim/schedule/algorithms.h"
#include "viz/core/text.h"
#include "viz/core/validated_row.h"

namespace flashscope::viz {

ByteTable byte_table(const Settings& settings, const std::array<std::optional<WholeRun>, 2>& runs) {
  ByteTable table;
  for (const auto& run : runs)
    if (!run || !run->prediction.value) return table;
  std::array<std::unique_ptr<Schedule>, 2> schedules;
  for (std::size_t side = 0; side < 2; ++side)
    schedules[side] = make_schedule(settings.algorithms[side], settings.problem, settings.tile);
  for (const TensorGroup& group : tensor_groups()) {
    ByteRow row{group.name, group.tensors, {}};
    for (std::size_t side = 0; side < 2; ++side)
      row.sides[side] = explain(group, *schedules[side], *runs[side]->prediction.value);
    if (row.sm(0) + row.sm(1) == 0) continue;
    table.rows.push_back(std::move(row));
  }
  for (std::size_t side = 0; side < 2; ++side) {
    std::int64_t left = 0;
    for (const ByteRow& row : table.rows) {
      left += row.sides[side].left_in_l2;
      table.left_is_known[side] = table.left_is_known[side] && row.sides[side].left_is_known;
    }
    // A run that is cold at each kernel's start loses some between kernels; one continued from few heads rounds.
    const std::int64_t of_all = runs[side]->prediction.value->hbm_dirty_bytes;
    table.left_is_known[side] = table.left_is_known[side] && std::abs(left - of_all) <= of_all / 100;
    for (const ByteRow& row : table.rows) {
      table.most_sm = std::max(table.most_sm, row.sm(side));
      table.most_hbm = std::max(table.most_hbm, row.hbm(side) + table.left(row, side));
    }
  }
  std::stable_sort(table.rows.begin(), table.rows.end(), [](const ByteRow& a, const ByteRow& b) {
    return std::abs(a.sm(0) - a.sm(1)) > std::abs(b.sm(0) - b.sm(1));
  });
  return table;
}

std::string difference_reason(const ComparisonRow& row) {
  if (!row.predicted.value) return "not predicted: " + row.predicted.reason;
  if (!row.measured.value) return row.measured.reason;
  const double difference = *row.predicted.value - *row.measured.value;
  if (std::max(*row.predicted.value, *row.measured.value) < kCounterResolution)
    return "below what the counters resolve (2 MiB)";
  if (difference == 0) return "equal to the byte";
  if (std::fabs(difference) <= kByteAllowance)
    return size_text(std::fabs(difference)) + " apart: parameters of the launch, instructions and tables of the driver";
  const bool is_sm = row.label.rfind("SM", 0) == 0;
  if (is_sm)
    return size_text(std::fabs(difference)) + " apart: the schedule's requests are exact, so look at the kernel";
  return difference > 0 ? size_text(difference) + " more predicted: the real L2 kept more than the modelled one"
                        : size_text(-difference) + " more measured: the real L2 lost more than the modelled one";
}

Sheet sheet_of(const ByteTable& table, const Settings& settings) {
  Sheet sheet{{"tensors", "algorithm", "sm_read_bytes", "sm_write_bytes", "hbm_read_bytes", "hbm_write_bytes",
               "left_in_l2_bytes", "why"},
              {}};
  for (const ByteRow& row : table.rows)
    for (std::size_t side = 0; side < 2; ++side) {
      const GroupTraffic& t = row.sides[side];
      std::string why;
      for (const std::string& sentence : t.sentences) why += (why.empty() ? "" : ". ") + sentence;
      sheet.rows.push_back(
          {row.name, settings.algorithms[side], std::to_string(t.sm.read), std::to_string(t.sm.write),
           std::to_string(t.hbm.read), std::to_string(t.hbm.write),
           table.left_is_known[side] ? std::to_string(t.left_in_l2) : "unavailable (counted for all tensors only)",
           why});
    }
  return sheet;
}

}  // namespace flashscope::viz
