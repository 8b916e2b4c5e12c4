// Where the bytes go: for each group of tensors what both algorithms move at each level, and why; and the levels'
// totals, predicted beside measured. Counters do not tell tensors apart, so measured values stand with totals only.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "viz/core/comparison.h"
#include "viz/core/figure.h"
#include "viz/core/traffic_reasons.h"

namespace flashscope::viz {

struct ByteRow {
  std::string name;             // "S and P"
  std::vector<Tensor> tensors;  // for their colours
  std::array<GroupTraffic, 2> sides;
  std::int64_t sm(std::size_t side) const { return sides[side].sm.read + sides[side].sm.write; }
  std::int64_t hbm(std::size_t side) const { return sides[side].hbm.read + sides[side].hbm.write; }  // during the run
};

struct ByteTable {
  std::vector<ByteRow> rows;               // largest difference at the SMs first
  std::int64_t most_sm = 0, most_hbm = 0;  // of all rows and sides: lengths of bars
  /// What each group leaves in L2 adds up to what the engine says of all: false where that can only be said of all.
  std::array<bool, 2> left_is_known = {true, true};
  std::int64_t left(const ByteRow& row, std::size_t side) const {
    return left_is_known[side] ? row.sides[side].left_in_l2 : 0;
  }
};

/// Needs the predictions of both sides; empty without them.
ByteTable byte_table(const Settings& settings, const std::array<std::optional<WholeRun>, 2>& runs);

/// What the difference between a predicted and a recorded byte count comes from, for the counters of one row.
std::string difference_reason(const ComparisonRow& row);

Sheet sheet_of(const ByteTable& table, const Settings& settings);

}  // namespace flashscope::viz
