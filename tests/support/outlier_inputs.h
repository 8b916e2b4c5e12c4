// The inputs on which FlashAttention-3 reports its errors (arXiv 2407.08608, section 4.3): standard normal, and of a
// thousand elements one with a normal of standard deviation 10 added.
#pragma once
#include <cmath>
#include <cstdint>
#include <random>

#include "sim/compute/compute.h"

namespace flashscope {

/// The paper's figure for fp8 with block scales and rotation. (Table 3; 2.4e-2 without the rotation.)
inline constexpr double kPublishedRmse = 9.1e-3;

inline Array outlier_array(int heads, int rows, int cols, std::mt19937& random) {
  std::normal_distribution<double> normal;
  std::bernoulli_distribution is_outlier(0.001);
  Array array(heads, rows, cols);
  for (double& x : array.values) {
    x = normal(random);
    if (is_outlier(random)) x += 10 * normal(random);
  }
  return array;
}

/// Rounded to the problem's dtype.
inline AttentionInputs outlier_inputs(const AttentionProblem& p, std::uint32_t seed) {
  std::mt19937 random(seed);
  return rounded({outlier_array(p.num_heads(), p.seqlen_q, p.head_dim, random),
                  outlier_array(p.num_kv_heads(), p.seqlen_k, p.head_dim, random),
                  outlier_array(p.num_kv_heads(), p.seqlen_k, p.head_dim, random), {}},
                 p.dtype);
}

/// Not a number when any element is not.
inline double rms_error(const Array& output, const Array& reference) {
  double sum = 0;
  for (std::size_t n = 0; n < output.values.size(); ++n) {
    const double error = output.values[n] - reference.values[n];
    sum += error * error;
  }
  return std::sqrt(sum / static_cast<double>(output.values.size()));
}

}  // namespace flashscope
