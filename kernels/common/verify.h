// Is a kernel's output right? Seeded inputs, and the comparison with the float64 reference before anything is timed.
#pragma once
#include <cstdint>

#include "kernels/kernels.h"

namespace flashscope::kernels {

/// Standard normal values, rounded to the problem's dtype, so that kernel and reference read the same numbers.
AttentionInputs seeded_inputs(const AttentionProblem& problem, std::uint32_t seed);

struct VerifiedOutputs {
  Verification o, lse;
};

/// Holds outputs to the tolerance rule (sim/compute/tolerance.h). Problems up to 2^25 multiply-adds a product are
/// compared element by element, in about a second; of larger ones up to four heads, and of each the first row, the last
/// and as many more, drawn with `seed`, as that work allows.
VerifiedOutputs verify_outputs(const Schedule& schedule, const AttentionInputs& inputs, const AttentionOutputs& outputs,
                               std::uint32_t seed);

}  // namespace flashscope::kernels
