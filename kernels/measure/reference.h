// Plain attention on the GPU: in float64, what every element of a large output is compared with; in the problem's own
// precision, what that comparison allows.
#pragma once
#include "kernels/common/params.h"
#include "kernels/common/verify.h"

namespace flashscope::kernels {

/// float64 throughout, or as plain attention does it: sums in float32, S, P and O rounded to the problem's dtype.
enum class Precision { float64, same };

/// O and LSE of all rows, from inputs that already lie on the GPU in the problem's dtype (fp32, fp16, bf16; head_dim up
/// to 256). Written apart from every rung: whole rows, no tiles, no online softmax, no tensor cores. Its own check is
/// verify_outputs(), which holds sampled rows of it against the CPU's reference.
/// Throws Error(resource) when the results, in float64, do not fit beside the workspace.
AttentionOutputs plain_on_gpu(const AttentionProblem& problem, const WorkspaceParams& params, Precision precision);

/// Both, as verify_outputs() asks for them; of a backward pass also the exact gradients, the largest error of plain
/// attention's, and what the O that lies in `params` costs them. Every mask but a dense one.
FullReference full_reference_on_gpu(const AttentionProblem& problem, const WorkspaceParams& params);

}  // namespace flashscope::kernels
