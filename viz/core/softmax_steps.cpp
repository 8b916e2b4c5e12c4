#include "viz/core/softmax_steps.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/compute/compute.h"
#include "sim/compute/rounding.h"
#include "sim/schedule/algorithms.h"
#include "viz/io/json_numbers.h"

namespace flashscope::viz {
namespace {

constexpr double kLargestScore = 1000;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

AttentionProblem one_row(int keys) {
  AttentionProblem p;
  p.heads = p.kv_heads = 1;
  p.seqlen_q = 1;
  p.seqlen_k = keys;
  p.head_dim = 1;
  p.dtype = DType::fp64;
  p.softmax_scale = 1;
  return p;
}

/// Q = 1, so that Q·Kᵀ is K: the scores themselves.
AttentionInputs inputs_of(const std::vector<double>& scores, const std::vector<double>& values) {
  const int keys = static_cast<int>(scores.size());
  AttentionInputs inputs;
  inputs.q = Array(1, 1, 1);
  inputs.k = inputs.v = Array(1, keys, 1);
  inputs.q.values = {1};
  inputs.k.values = scores;
  inputs.v.values = values;
  return inputs;
}

void naive(const SoftmaxChoice& choice, SoftmaxSteps& into) {
  const auto rounded = [&](double x) { return round_to(choice.naive, x); };
  double sum = 0, acc = 0;
  for (std::size_t k = 0; k < choice.scores.size(); ++k) {
    const double e = rounded(std::exp(choice.scores[k]));
    sum = rounded(sum + e);
    acc = rounded(acc + rounded(e * into.values[k]));
    into.naive_exp.push_back(e);
    into.naive_sum.push_back(sum);
  }
  into.naive_o = acc / sum;
  into.naive_fails = !std::isfinite(sum) || sum == 0 || !std::isfinite(into.naive_o);
}

}  // namespace

SoftmaxChoice clamp(SoftmaxChoice choice) {
  if (choice.scores.empty()) choice.scores = {0};
  if (choice.scores.size() > kMostScores) choice.scores.resize(kMostScores);
  for (double& s : choice.scores)
    if (s != -kInfinity) s = std::isnan(s) ? 0 : std::clamp(s, -kLargestScore, kLargestScore);
  const int keys = static_cast<int>(choice.scores.size());
  choice.bc = std::clamp(choice.bc, 1, keys);
  choice.tiles = std::clamp(choice.tiles, 0, num_tiles(keys, choice.bc));
  return choice;
}

const std::vector<SoftmaxExample>& softmax_examples() {
  static const std::vector<SoftmaxExample> list = {
      {"eight keys", SoftmaxChoice().scores, "standard normal Q and K, head_dim 4"},
      {"late maximum", {1, 2, 0.5, 1.5, 0, 1, 6, 2}, "what was summed before is rescaled once it turns out too large"},
      {"rising", {1, 2, 3, 4, 5, 6, 7, 8}, "every tile brings a new maximum: a rescale each time"},
      {"large scores", {10, 12, 11, 13, 12, 14, 11, 12}, "exp(12) is beyond fp16, the sum of the naive formula is inf"},
      {"masked keys", {1, 2, -kInfinity, -kInfinity, 0.5, 3, -kInfinity, 1}, "a key that is not kept has weight 0"},
  };
  return list;
}

SoftmaxSteps softmax_steps(const SoftmaxChoice& given) {
  const SoftmaxChoice choice = clamp(given);
  SoftmaxSteps result;
  const int keys = static_cast<int>(choice.scores.size());
  for (int k = 0; k < keys; ++k) result.values.push_back(k + 1);
  const AttentionProblem problem = one_row(keys);
  const AttentionInputs inputs = inputs_of(choice.scores, result.values);
  TileShape tile = {1, choice.bc, 1};
  tile.backward_keys = choice.backward;
  const auto schedule = make_schedule("flash_v2", problem, tile);
  ComputeOptions options;
  double m = -kInfinity, l = 0, acc = 0;
  options.after_tile = [&](const TileState& state) {
    SoftmaxStep step;
    step.first = state.j * choice.bc;
    step.last = std::min(keys, step.first + choice.bc);
    step.m_before = m;
    step.l_before = l;
    step.acc_before = acc;
    step.rescale = state.rescale.at(0);
    m = step.m = state.m.at(0);
    l = step.l = state.l.at(0);
    acc = step.acc = state.acc.at(0, 0, 0);
    result.steps.push_back(step);
  };
  const AttentionOutputs out = compute(*schedule, inputs, options);
  result.o = out.o.at(0, 0, 0);
  result.lse = out.lse.at(0, 0, 0);
  result.reference_o = reference_attention(problem, inputs).o.at(0, 0, 0);
  naive(choice, result);
  return result;
}

Sheet sheet_of(const SoftmaxSteps& steps) {
  Sheet sheet{{"first_key", "last_key", "m_before", "m", "rescale", "l_before", "l", "acc_before", "acc"}, {}};
  for (const SoftmaxStep& s : steps.steps) {
    std::vector<std::string> row = {std::to_string(s.first), std::to_string(s.last - 1)};
    for (double value : {s.m_before, s.m, s.rescale, s.l_before, s.l, s.acc_before, s.acc})
      row.push_back(number_text(value));
    sheet.rows.push_back(row);
  }
  return sheet;
}

}  // namespace flashscope::viz
