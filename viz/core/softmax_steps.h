// Online softmax for one row, tile by tile. The steps are those of the schedule of flash_v2, executed on a problem of
// one row and one column whose scores are given; nothing here computes a running maximum of its own.
#pragma once
#include <string>
#include <vector>

#include "sim/problem.h"
#include "viz/core/figure.h"

namespace flashscope::viz {

/// What the inspector works on. Scores may be -inf (masked).
struct SoftmaxChoice {
  std::vector<double> scores = {0.41, -0.16, -0.57, 0.17, -0.29, -0.24, -0.38, 0.04};
  int bc = 2;     // keys a tile
  int tiles = 2;  // tiles done; clamped to their number
  bool backward = false;  // tiles are read from the last to the first; a key keeps its place, its score and its V
  DType naive = DType::fp16;
  bool operator==(const SoftmaxChoice&) const = default;
};
inline constexpr int kMostScores = 16;
SoftmaxChoice clamp(SoftmaxChoice choice);

/// Scores worth trying, for buttons.
struct SoftmaxExample {
  const char* name;
  std::vector<double> scores;
  const char* what;
};
const std::vector<SoftmaxExample>& softmax_examples();

/// One tile of keys.
struct SoftmaxStep {
  int first = 0, last = 0;  // keys [first, last)
  double m_before = 0, l_before = 0, acc_before = 0;
  double rescale = 1;            // exp(m_before - m), what l and acc are multiplied with
  double m = 0, l = 0, acc = 0;  // after the tile
};

struct SoftmaxSteps {
  std::vector<double> values;      // the V of each key: one column, so that acc is one number
  std::vector<SoftmaxStep> steps;  // in the schedule's order
  double o = 0, lse = 0;           // of the schedule
  double reference_o = 0;          // plain softmax in float64
  /// Softmax as the formula says it, without the maximum, in the narrow dtype: exp(s), their running sum, the result.
  std::vector<double> naive_exp, naive_sum;
  double naive_o = 0;
  bool naive_fails = false;  // a sum that is not finite, or 0
};
SoftmaxSteps softmax_steps(const SoftmaxChoice& choice);

Sheet sheet_of(const SoftmaxSteps& steps);

}  // namespace flashscope::viz
