// The schedule executed with real numbers: the same operations that are counted and timed, on values.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "sim/schedule/schedule.h"

namespace flashscope {

/// A tensor of the problem as float64 values: (heads, rows, cols), row-major; heads runs over batch · heads.
struct Array {
  int heads = 0, rows = 0, cols = 0;
  std::vector<double> values;

  Array() = default;
  Array(int heads_, int rows_, int cols_)
      : heads(heads_), rows(rows_), cols(cols_), values(static_cast<std::size_t>(heads_) * rows_ * cols_) {}
  double& at(int head, int row, int col) { return values[(static_cast<std::size_t>(head) * rows + row) * cols + col]; }
  double at(int head, int row, int col) const {
    return values[(static_cast<std::size_t>(head) * rows + row) * cols + col];
  }
};

/// Q: (batch · heads, seqlen_q, head_dim); K, V: (batch · kv_heads, seqlen_k, head_dim).
/// keep: empty, or (1 or batch · heads, seqlen_q, seqlen_k) with nonzero = keep, applied on top of the problem's mask.
struct AttentionInputs {
  Array q, k, v;
  Array keep;
};

/// O: like Q. LSE: (batch · heads, seqlen_q, 1), natural log, -inf in empty rows.
struct AttentionOutputs {
  Array o, lse;
};

/// Plain attention in float64, row by row with the maximum taken first: what everything else is checked against. It
/// shares no code with the schedules.
AttentionOutputs reference_attention(const AttentionProblem& problem, const AttentionInputs& inputs);

/// State of a CTA after it finished key tile j of query tile i.
struct TileState {
  std::int64_t cta = 0;
  int head = 0, i = 0, j = 0;
  std::vector<double> m, l;     // one a row
  std::vector<double> rescale;  // exp(m_old - m_new), what l and acc were multiplied with; one a row
  Array acc;                    // (1, rows, head_dim), not yet divided by l
};

struct ComputeOptions {
  /// Called after each weighted_sum that follows an online_softmax, in program order.
  std::function<void(const TileState&)> after_tile;
};

/// Executes every CTA of every kernel in order. Storage is rounded to the problem's dtype at every load source and
/// store (inputs included); arithmetic is float32, or float64 for fp64. Throws Error(input) when a shape does not fit
/// the problem.
AttentionOutputs compute(const Schedule& schedule, const AttentionInputs& inputs, const ComputeOptions& options = {});

}  // namespace flashscope
