// Is a kernel's output right? Seeded inputs, and the comparison with the float64 reference before anything is timed.
#pragma once
#include <cstdint>
#include <functional>

#include "kernels/kernels.h"
#include "sim/compute/judge.h"

namespace flashscope::kernels {

/// Standard normal values, rounded to the problem's dtype, so that kernel and reference read the same numbers; of a
/// backward pass the same Q, K, V and a dO.
AttentionInputs seeded_inputs(const AttentionProblem& problem, std::uint32_t seed);

/// The problem whose inputs are the numbers that a rung which quantises multiplies (Workspace::quantized()): in fp32,
/// which holds them all, and with the compiled width as head_dim. O's further columns are zeros.
AttentionProblem quantized_problem(const AttentionProblem& problem);

struct VerifiedOutputs {
  Verification o, lse;
  Verification d_q, d_k, d_v;  // of a backward pass; else as they are made
};

/// What the GPU computes of a problem that is large for the CPU: every element in float64, the largest errors that plain
/// attention in the problem's dtype makes anywhere and, of a backward pass, the other two parts of the tolerance of
/// gradients (gradient_tolerance.h). Of a rung that quantises: what it multiplies, and the errors are at least those of
/// float64 attention on these numbers.
struct FullReference {
  AttentionOutputs outputs;
  OfGradients<double> plain_errors = {};
  OfGradients<Array> inherited = {};
  double plain_o = 0, plain_lse = 0;
  AttentionInputs quantized = {};
};

/// Holds every element of the outputs to the tolerance rule (sim/compute/tolerance.h, gradient_tolerance.h).
///
/// Up to 2^25 multiply-adds a product, reference and yardstick are computed here, in about a second. Above, those of all
/// rows come from `full_reference` (the GPU's own). Rows drawn with `seed`, of up to four heads, the first and last row
/// among them, are computed here as well: Error(internal) is thrown where the two references differ by more than float64
/// rounding (dK, dV: of keys drawn likewise), and the errors of a rung that is held to its own schedule there, executed,
/// count for E.
///
/// A rung that quantises could make E large by rounding badly. So its O (sampled rows, of a small problem all) must also
/// be, in the mean, at most half as far from the schedule, executed, as from the reference, plus an ulp; and what its first
/// kernel left of the sampled heads (all of K and V, the query tiles of the sampled rows) must be the schedule's numbers,
/// bit by bit. Error(verify) is thrown where they are not.
VerifiedOutputs verify_outputs(const Schedule& schedule, const AttentionInputs& inputs, const AttentionOutputs& outputs,
                               std::uint32_t seed, const std::function<FullReference()>& full_reference);

}  // namespace flashscope::kernels
