// Plain attention in float64 on the GPU: what every element of a large output is compared with.
#pragma once
#include "kernels/common/params.h"
#include "kernels/common/verify.h"

namespace flashscope::kernels {

/// O and LSE of all rows, from inputs that already lie on the GPU in the problem's dtype (fp32, fp16, bf16; head_dim up
/// to 256). Written apart from every rung: whole rows, no tiles, no online softmax, no tensor cores. Its own check is
/// verify_outputs(), which holds sampled rows of it against the CPU's reference.
/// Throws Error(resource) when the float64 results do not fit beside the workspace.
AttentionOutputs reference_on_gpu(const AttentionProblem& problem, const KernelParams& params);

/// The same and, of a backward pass, the gradients: the exact ones, the largest error of eager attention in the
/// problem's dtype, and what the O that lies in `params` costs them. Causal and window masks.
FullReference full_reference_on_gpu(const AttentionProblem& problem, const KernelParams& params);

}  // namespace flashscope::kernels
