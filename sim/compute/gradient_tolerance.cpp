#include "sim/compute/gradient_tolerance.h"

#include <algorithm>
#include <cmath>

#include "sim/compute/rounding.h"

namespace flashscope {
namespace {

double rewrite_allowance(const Schedule& schedule, const Array& d_q) {
  const AttentionProblem& p = schedule.problem();
  double largest = 0;
  for (double value : d_q.values) largest = std::max(largest, std::fabs(value));
  return 2 * std::sqrt(static_cast<double>(num_tiles(p.seqlen_k, schedule.tile().bc))) * ulp_of(p.dtype, 2 * largest);
}

}  // namespace

OfGradients<Array> inherited_from_forward(const AttentionProblem& p, const AttentionInputs& inputs,
                                          const AttentionOutputs& outputs, const AttentionOutputs& reference) {
  AttentionInputs for_dk = inputs, for_dv = inputs;
  for_dk.v = inputs.k;
  for (double& value : for_dk.v.values) value = std::fabs(value);
  Array delta(p.num_heads(), p.seqlen_q, 1), epsilon = delta;
  const SparseMask mask = p.mask();
  for (int head = 0; head < delta.heads; ++head)
    for (int row = 0; row < delta.rows; ++row) {
      const int kv_head = head / (p.heads / p.kv_heads);
      double &d = delta.at(head, row, 0), &e = epsilon.at(head, row, 0), largest = 0;
      const double lse = reference.lse.at(head, row, 0);
      e = std::isfinite(lse) ? ulp_of(DType::fp32, lse) : 0;
      double total = 0, squares = 0;
      for (int c = 0; c < p.head_dim; ++c) {
        const double term = inputs.d_out.at(head, row, c) * reference.o.at(head, row, c);
        total += term;
        squares += term * term;
        d += std::fabs(inputs.d_out.at(head, row, c) * (outputs.o.at(head, row, c) - reference.o.at(head, row, c)));
      }
      d += error_of_sum(p.head_dim, total, squares);
      for (int key = 0; key < p.seqlen_k; ++key) {  // D is a mean of the dP of kept keys
        const bool kept = is_kept(mask, row, key) &&
                          (!p.dense_mask || inputs.keep.at(inputs.keep.heads == 1 ? 0 : head, row, key) != 0);
        if (!kept) continue;
        double d_p = 0;
        for (int c = 0; c < p.head_dim; ++c) d_p += inputs.d_out.at(head, row, c) * inputs.v.at(kv_head, key, c);
        largest = std::max(largest, 2 * std::fabs(d_p));
      }
      for (int c = 0; c < p.head_dim; ++c) {
        for_dk.d_out.at(head, row, c) = std::fabs(p.scale() * (d + e * largest) * inputs.q.at(head, row, c));
        for_dv.d_out.at(head, row, c) = std::fabs(e * inputs.d_out.at(head, row, c));
      }
    }
  const AttentionOutputs formed = reference_attention(p, for_dk);  // O with |K| for V; dV with another dO
  OfGradients<Array> result{formed.o, formed.d_v, reference_attention(p, for_dv).d_v};
  for (int head = 0; head < delta.heads; ++head)
    for (int row = 0; row < delta.rows; ++row)
      for (int c = 0; c < p.head_dim; ++c) {
        double& d_q = result.d_q.at(head, row, c);
        d_q = std::fabs(d_q * p.scale() * delta.at(head, row, 0)) +
              epsilon.at(head, row, 0) * std::fabs(reference.d_q.at(head, row, c));
      }
  return result;
}

OfGradients<double> largest_errors(const AttentionOutputs& same_precision, const AttentionOutputs& reference) {
  return {largest_error(same_precision.d_q, reference.d_q), largest_error(same_precision.d_k, reference.d_k),
          largest_error(same_precision.d_v, reference.d_v)};
}

OfGradients<Verification> compare_gradients(const Schedule& schedule, const AttentionOutputs& outputs,
                                            const AttentionOutputs& reference, const OfGradients<double>& plain_errors,
                                            const OfGradients<Array>& inherited) {
  const DType dtype = schedule.problem().dtype;
  const bool is_tiled = schedule.algorithm() != "three_pass";
  OfGradients<Array> more = inherited;
  if (schedule.algorithm() == "flash_v1") {
    const double rewrites = rewrite_allowance(schedule, reference.d_q);
    for (double& value : more.d_q.values) value += rewrites;
  }
  const auto check = [&](Array AttentionOutputs::*array, double e, const Array& extra) {
    return compare(outputs.*array, reference.*array, e, dtype, is_tiled ? &extra : nullptr);
  };
  return {check(&AttentionOutputs::d_q, plain_errors.d_q, more.d_q),
          check(&AttentionOutputs::d_k, plain_errors.d_k, more.d_k),
          check(&AttentionOutputs::d_v, plain_errors.d_v, more.d_v)};
}

}  // namespace flashscope
