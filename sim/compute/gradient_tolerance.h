// When are gradients right? The tolerance rule (tolerance.h), plus what a tiled algorithm cannot help: it starts from
// the O and LSE that the forward pass has stored, with their rounding. (Plain attention has kept P instead.)
#pragma once
#include <cmath>

#include "sim/compute/tolerance.h"
#include "sim/schedule/walk.h"

namespace flashscope {

/// One value for each of the three gradients.
template <class T>
struct OfGradients {
  T d_q, d_k, d_v;
};

/// By how much each element may be off because of what the forward pass stored:
///   O, for D = rowsum(dO ∘ O): an error δ in D moves every dS of its row by P δ.
///      D is also a sum of its own, where plain attention adds up the P dP that it subtracts D from: error_of_sum().
///   LSE, for P = exp(S - LSE): its rounding, a relative ε (one ulp of LSE: it is a sum), scales every P of its row.
/// All to the same side, so it does not average out: dQ by scale · δ · Σ P |K| + ε |dQ|; dK by
/// scale · Σ (δ + ε B) P |Q|, with B the largest |dP| + |D| of the row; dV by Σ ε P |dO|.
/// `outputs` holds the stored O. The sums are ones that reference_attention() can form.
OfGradients<Array> inherited_from_forward(const AttentionProblem& problem, const AttentionInputs& inputs,
                                          const AttentionOutputs& outputs, const AttentionOutputs& reference);

/// Two sums in float32 of the same `terms` terms, in two orders: four times the random walk of their roundings, half a
/// unit of a partial sum each. In double, from the terms' sum and the sum of their squares; kernels call it too.
FLASHSCOPE_HD double error_of_sum(int terms, double sum, double squares) {
  return 4 * sqrt(static_cast<double>(terms)) * (fabs(sum) + sqrt(squares)) / (1 << 24);
}

/// E of each gradient, from the yardstick same_precision_attention().
OfGradients<double> largest_errors(const AttentionOutputs& same_precision, const AttentionOutputs& reference);

/// |gradient - reference| <= 2 E + 2 ulp + inherited, for every element of dQ, dK and dV of one run of `schedule`.
/// three_pass inherits nothing. flash_v1 writes dQ in the dtype once per key tile: Tc roundings of at most half a unit,
/// which add up like a random walk; dQ may be off by four times that walk, with twice its largest element for the size
/// of a partial sum.
OfGradients<Verification> compare_gradients(const Schedule& schedule, const AttentionOutputs& outputs,
                                            const AttentionOutputs& reference, const OfGradients<double>& plain_errors,
                                            const OfGradients<Array>& inherited);

}  // namespace flashscope
