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
/// keep: (1 or batch · heads, seqlen_q, seqlen_k) with nonzero = keep, applied on top of the problem's mask. Given
/// exactly when the problem says dense_mask; otherwise left as it is (heads = 0).
/// d_out: like Q; the gradient with respect to O, for the backward pass alone (else left as it is).
struct AttentionInputs {
  Array q, k, v;
  Array keep;
  Array d_out = {};
};

/// Throws Error(input) that names the tensor, its shape and the expected one when the inputs do not fit the problem.
void validate(const AttentionProblem& problem, const AttentionInputs& inputs);

/// Q, K, V and dO as they are after storing in `dtype`: what a kernel of that dtype receives.
AttentionInputs rounded(const AttentionInputs& inputs, DType dtype);

/// O: like Q. LSE: (batch · heads, seqlen_q, 1), natural log, -inf in empty rows. After a backward pass also d_q (like
/// Q), d_k and d_v (like K and V, summed over the query heads that share them); otherwise they stay empty.
struct AttentionOutputs {
  Array o, lse;
  Array d_q = {}, d_k = {}, d_v = {};
};

/// Plain attention in float64, row by row with the maximum taken first: what everything else is checked against. It
/// shares no code with the schedules; the mask is written down a second time here, on purpose. Inputs are taken as they
/// are, not rounded to the dtype. Pairs that are not kept are not read. With the problem's pass backward the gradients
/// come too, from the chain rule pair by pair (dS = P ∘ (dP - rowsum(P ∘ dP))). Throws like validate().
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
  /// flash_v3_fp8: false leaves the rotation of Q and K out, to see what it is worth.
  bool rotate = true;
};

/// Executes every CTA of every kernel in order, each operation as op.h defines it.
///
/// Storage is rounded to the problem's dtype at every load source and store (inputs included); arithmetic, and the
/// statistics m, l, LSE wherever they are, is float32, or float64 for fp64. A score of -inf has weight 0 whatever the
/// maximum, so exp(-inf - -inf) never becomes NaN; a row whose scores are all -inf gives O = 0 and LSE = -inf. NaN and
/// +inf in the inputs go the way IEEE arithmetic takes them: 0 · NaN is NaN, also for a masked key inside a visited
/// tile, as in a kernel. In fp8 stored scores saturate at ±448, e4m3 has no infinity: `softmax` masks them again.
///
/// A backward schedule is preceded by the forward schedule of the same algorithm with its own tile: what it stored of O,
/// LSE and P is what the backward pass finds.
///
/// Global memory holds NaN until it is written, and a CTA starts with an empty chip. Throws Error(internal) when a
/// schedule uses on chip what it did not load, Error(input) like validate(), Error(resource) when memory runs out
/// (three-pass algorithms hold S and P of all heads).
AttentionOutputs compute(const Schedule& schedule, const AttentionInputs& inputs, const ComputeOptions& options = {});

/// Plain attention in the problem's dtype, as eager frameworks run it (S, P and O rounded to the dtype, float32
/// arithmetic; backward also dP and dS): the yardstick E of the tolerance rule (tolerance.h). It is `three_pass` executed
/// by compute(), one KV head after the other, so that it needs memory for the S and P of few heads.
AttentionOutputs same_precision_attention(const AttentionProblem& problem, const AttentionInputs& inputs);

}  // namespace flashscope
