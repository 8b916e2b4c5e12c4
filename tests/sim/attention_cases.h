// Problems and inputs that several tests of this room use.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "sim/compute/compute.h"

namespace flashscope {

/// A fresh seed for each run, or the one in FLASHSCOPE_SEED to repeat a run. Print it with the failure.
inline std::uint32_t fresh_seed() {
  const char* given = std::getenv("FLASHSCOPE_SEED");
  return given ? static_cast<std::uint32_t>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
}

inline Array array_of(int heads, int rows, int cols, std::vector<double> values) {
  Array array(heads, rows, cols);
  array.values = std::move(values);
  return array;
}

/// One batch entry, one head, scale 1, fp64: the form of most hand-made cases.
inline AttentionProblem small_problem(int seqlen_q, int seqlen_k, int head_dim) {
  AttentionProblem p;
  p.heads = p.kv_heads = 1;
  p.seqlen_q = seqlen_q;
  p.seqlen_k = seqlen_k;
  p.head_dim = head_dim;
  p.dtype = DType::fp64;
  p.softmax_scale = 1;
  return p;
}

inline Array random_array(int heads, int rows, int cols, std::mt19937& random) {
  std::normal_distribution<double> normal;
  Array array(heads, rows, cols);
  for (double& value : array.values) value = normal(random);
  return array;
}

inline double largest_magnitude(const Array& array) {
  double largest = 0;
  for (double value : array.values) largest = std::max(largest, std::fabs(value));
  return largest;
}

/// Largest |a - b|, infinity when one is finite and the other is not, or differs in its infinity or NaN.
inline double distance(const Array& a, const Array& b) {
  double largest = a.values.size() == b.values.size() ? 0 : INFINITY;
  for (std::size_t n = 0; n < std::min(a.values.size(), b.values.size()); ++n)
    if (a.values[n] != b.values[n]) {
      const double error = std::fabs(a.values[n] - b.values[n]);
      largest = std::isfinite(error) ? std::max(largest, error) : INFINITY;
    }
  return largest;
}

inline AttentionInputs random_inputs(const AttentionProblem& p, std::mt19937& random) {
  AttentionInputs inputs{random_array(p.num_heads(), p.seqlen_q, p.head_dim, random),
                         random_array(p.num_kv_heads(), p.seqlen_k, p.head_dim, random),
                         random_array(p.num_kv_heads(), p.seqlen_k, p.head_dim, random),
                         {}};
  if (p.dense_mask) {
    inputs.keep = Array(random() % 2 ? 1 : p.num_heads(), p.seqlen_q, p.seqlen_k);
    for (double& keep : inputs.keep.values) keep = random() % 3 != 0;
  }
  if (p.pass == Pass::backward) inputs.d_out = random_array(p.num_heads(), p.seqlen_q, p.head_dim, random);
  return inputs;
}

/// GQA, causal, windows, dense masks, seqlen_q != seqlen_k, odd sizes, empty rows; small enough to run by the hundred.
inline AttentionProblem random_small_problem(std::mt19937& random) {
  const auto pick = [&](std::initializer_list<int> values) { return *(values.begin() + random() % values.size()); };
  AttentionProblem p;
  p.batch = pick({1, 1, 2});
  p.kv_heads = pick({1, 1, 2, 3});
  p.heads = p.kv_heads * pick({1, 1, 2, 3});
  p.seqlen_q = pick({1, 2, 7, 16, 31, 32, 33, 65});
  p.seqlen_k = pick({1, 3, 8, 16, 31, 32, 33, 65});
  p.head_dim = pick({1, 2, 5, 8, 16, 24});
  p.dtype = DType::fp64;
  switch (pick({0, 1, 2})) {
    case 1: p.causal = true; break;
    case 2:
      p.window_left = pick({-1, 0, 3, 20});
      p.window_right = pick({-1, 0, 5, INT32_MAX});
      break;
  }
  p.dense_mask = pick({0, 0, 0, 1}) == 1;
  p.softmax_scale = pick({0, 0, 1});
  return p;
}

}  // namespace flashscope
