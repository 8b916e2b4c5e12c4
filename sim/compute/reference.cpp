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

/// Causal and window, aligned to the bottom right: the last query of a sequence sits on its last key. Then the block.
bool sees(const AttentionProblem& problem, std::int64_t query, std::int64_t key) {
  std::int64_t last_query = problem.seqlen_q, last_key = problem.seqlen_k;  // one past
  for (std::size_t s = 0; s + 1 < problem.cu_seqlens_q.size(); ++s) {
    if (query < problem.cu_seqlens_q[s] || query >= problem.cu_seqlens_q[s + 1]) continue;
    last_query = problem.cu_seqlens_q[s + 1];
    last_key = problem.cu_seqlens_k[s + 1];
    if (key < problem.cu_seqlens_k[s] || key >= last_key) return false;
  }
  if (const BlockMask* blocks = problem.block_mask.mask.get())
    if (!blocks->kept(static_cast<int>(query / blocks->block_q), static_cast<int>(key / blocks->block_k))) return false;
  const std::int64_t ahead = (key - last_key) - (query - last_query);  // > 0: a key of the future
  if (problem.causal && ahead > 0) return false;
  if (!problem.causal && problem.window_right >= 0 && ahead > problem.window_right) return false;
  return problem.window_left < 0 || -ahead <= problem.window_left;
}

/// One query row with the keys that it sees and their probabilities.
struct Row {
  int head, kv_head, row;
  const std::vector<int>& keys;
  const std::vector<double>& probabilities;
};

/// The chain rule of O = P V, P = softmax(S), S = scale · Q Kᵀ for one row. The softmax's part needs the whole row:
/// dS = P ∘ (dP - Σ P dP).
void add_gradients(const AttentionInputs& inputs, double scale, const Row& at, AttentionOutputs& out) {
  std::vector<double> d_p(at.keys.size(), 0);
  double mean = 0;  // Σ P dP
  for (std::size_t n = 0; n < at.keys.size(); ++n) {
    for (int d = 0; d < inputs.v.cols; ++d)
      d_p[n] += inputs.d_out.at(at.head, at.row, d) * inputs.v.at(at.kv_head, at.keys[n], d);
    mean += at.probabilities[n] * d_p[n];
  }
  for (std::size_t n = 0; n < at.keys.size(); ++n) {
    const double p = at.probabilities[n], d_s = scale * p * (d_p[n] - mean);
    for (int d = 0; d < inputs.q.cols; ++d) {
      out.d_q.at(at.head, at.row, d) += d_s * inputs.k.at(at.kv_head, at.keys[n], d);
      out.d_k.at(at.kv_head, at.keys[n], d) += d_s * inputs.q.at(at.head, at.row, d);
      out.d_v.at(at.kv_head, at.keys[n], d) += p * inputs.d_out.at(at.head, at.row, d);
    }
  }
}

}  // namespace

AttentionOutputs reference_attention(const AttentionProblem& problem, const AttentionInputs& inputs) {
  validate(problem, inputs);
  const int group = problem.heads / problem.kv_heads;  // query heads that share a KV head
  const double scale = problem.scale();
  AttentionOutputs out{Array(problem.num_heads(), problem.seqlen_q, problem.head_dim),
                       Array(problem.num_heads(), problem.seqlen_q, 1)};
  if (problem.pass == Pass::backward) {
    out.d_q = out.o;
    out.d_k = out.d_v = Array(problem.num_kv_heads(), problem.seqlen_k, problem.head_dim);
  }
  std::vector<int> keys;        // that the row sees
  std::vector<double> weights;  // scores, then exp(score - maximum), then probabilities

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
        for (double& weight : weights) weight /= sum;
        for (std::size_t n = 0; n < keys.size(); ++n)
          for (int d = 0; d < problem.head_dim; ++d)
            out.o.at(head, row, d) += weights[n] * inputs.v.at(kv_head, keys[n], d);
        if (problem.pass == Pass::backward) add_gradients(inputs, scale, {head, kv_head, row, keys, weights}, out);
      }
    }
  }
  return out;
}

}  // namespace flashscope
