// Is a kernel's output right? Seeded inputs, and the comparison with the float64 reference before anything is timed.
#pragma once
#include <cstdint>
#include <functional>

#include "kernels/kernels.h"

namespace flashscope::kernels {

/// Standard normal values, rounded to the problem's dtype, so that kernel and reference read the same numbers.
AttentionInputs seeded_inputs(const AttentionProblem& problem, std::uint32_t seed);

struct VerifiedOutputs {
  Verification o, lse;
};

/// Attention in float64, and as plain attention in the problem's dtype gives it: their difference is what is allowed.
struct Yardstick {
  AttentionOutputs reference, same_precision;
};

/// Holds every element of the outputs to the tolerance rule (sim/compute/tolerance.h).
///
/// Up to 2^25 multiply-adds a product, reference and yardstick are computed here, in about a second. Above, those of all
/// rows come from `full` (the GPU's own). Rows drawn with `seed`, of up to four heads, the first and last row among them,
/// are computed here as well: Error(internal) is thrown where the two references differ by more than float64 rounding,
/// and a rung that is held to its own schedule (flash_v1) gets its yardstick from them.
VerifiedOutputs verify_outputs(const Schedule& schedule, const AttentionInputs& inputs, const AttentionOutputs& outputs,
                               std::uint32_t seed, const std::function<Yardstick()>& full);

}  // namespace flashscope::kernels
