// What the user chose: the problem, the two algorithms, the GPU. A value; everything the window computes is a function
// of it. Every number passes clamp() before anything uses it.
#pragma once
#include <array>
#include <string>

#include "sim/engine/engine.h"
#include "sim/problem.h"
#include "sim/schedule/schedule.h"

namespace flashscope::viz {

struct Settings {
  AttentionProblem problem;  // the default problem of the command line
  TileShape tile{64, 64, 1};
  std::array<std::string, 2> algorithms = {"three_pass", "flash_v2"};
  std::string gpu = "nvidia-h200";
  Start start = Start::cold;
  int stage_seqlen = 1024;  // the stage draws a problem of at most this many rows and keys

  bool operator==(const Settings&) const = default;
};

/// Inclusive range of a control.
struct IntRange {
  int lo = 0, hi = 0;
};
inline constexpr IntRange kSeqlenRange = {1, 65536};
inline constexpr IntRange kHeadDimRange = {8, 256};
inline constexpr IntRange kTileRange = {1, 256};
inline constexpr IntRange kSplitsRange = {1, 256};
inline constexpr IntRange kHeadsRange = {1, 128};
inline constexpr IntRange kBatchRange = {1, 64};
inline constexpr IntRange kStageSeqlenRange = {64, 4096};

/// The nearest value of the range; NaN becomes the lower end.
int clamp_to(IntRange range, double value);

/// Settings with every number inside its range, kv_heads a divisor of heads, and names that exist.
Settings clamp(Settings settings);

/// The problem the stage draws: one batch entry, at most stage_seqlen rows and keys, and as many heads as keep each
/// run's trace within `max_ops` tile operations. Tile shape, head_dim, dtype and mask are the problem's own.
AttentionProblem stage_problem(const Settings& settings, std::int64_t max_ops);

/// "16 heads · 1,024 × 1,024 · d 64 · bf16 · causal"
std::string describe(const AttentionProblem& problem);

}  // namespace flashscope::viz
