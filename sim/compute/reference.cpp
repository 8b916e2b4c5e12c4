// The float64 reference: attention as the textbook writes it, one query row at a time.
//
// Nothing here comes from the schedules or from walk.h: a wrong mask or head mapping there must not pass unseen because
// the reference made the same mistake.
#include <cmath>
#include <limits>
#include <vector>

#include "sim/compute/compute.h"

namespace flashscope {
namespace {

constexpr double kNegativeInfinity = -std::numeric_limits<double>::infinity();

/// Causal and window, aligned to the bottom right: the last query sits on the last key.
bool sees(const AttentionProblem& problem, std::int64_t query, std::int64_t key) {
  const std::int64_t ahead = key - (query + problem.seqlen_k - problem.seqlen_q);  // > 0: a key of the future
  if (problem.causal && ahead > 0) return false;
  if (!problem.causal && problem.window_right >= 0 && ahead > problem.window_right) return false;
  return problem.window_left < 0 || -ahead <= problem.window_left;
}

}  // namespace

AttentionOutputs reference_attention(const AttentionProblem& problem, const AttentionInputs& inputs) {
  validate(problem, inputs);
  const int group = problem.heads / problem.kv_heads;  // query heads that share a KV head
  const double scale = problem.scale();
  AttentionOutputs out{Array(problem.num_heads(), problem.seqlen_q, problem.head_dim),
                       Array(problem.num_heads(), problem.seqlen_q, 1)};
  std::vector<int> keys;        // that the row sees
  std::vector<double> weights;  // scores, then exp(score - maximum)

  for (int entry = 0; entry < problem.batch; ++entry) {
    for (int head_in_entry = 0; head_in_entry < problem.heads; ++head_in_entry) {
      const int head = entry * problem.heads + head_in_entry;
      const int kv_head = entry * problem.kv_heads + head_in_entry / group;
      const int mask_head = inputs.keep.heads == 1 ? 0 : head;
      for (int row = 0; row < problem.seqlen_q; ++row) {
        keys.clear();
        weights.clear();
        double maximum = kNegativeInfinity;
        for (int key = 0; key < problem.seqlen_k; ++key) {
          if (!sees(problem, row, key)) continue;
          if (problem.dense_mask && inputs.keep.at(mask_head, row, key) == 0) continue;
          double dot = 0;
          for (int d = 0; d < problem.head_dim; ++d) dot += inputs.q.at(head, row, d) * inputs.k.at(kv_head, key, d);
          keys.push_back(key);
          weights.push_back(scale * dot);
          maximum = std::fmax(maximum, weights.back());  // fmax passes over NaN: the exponential below brings it back
        }

        double sum = 0;
        for (double& weight : weights) {
          weight = weight == kNegativeInfinity ? 0 : std::exp(weight - maximum);
          sum += weight;
        }
        out.lse.at(head, row, 0) = sum == 0 ? kNegativeInfinity : maximum + std::log(sum);
        if (sum == 0) continue;  // no key: O stays 0
        for (std::size_t n = 0; n < keys.size(); ++n)
          for (int d = 0; d < problem.head_dim; ++d)
            out.o.at(head, row, d) += weights[n] / sum * inputs.v.at(kv_head, keys[n], d);
      }
    }
  }
  return out;
}

}  // namespace flashscope
