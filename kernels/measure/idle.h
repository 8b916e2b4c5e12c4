// A kernel that does nothing for a while: what the GPU's memory moves by itself meanwhile is nobody's traffic.
#pragma once

namespace flashscope::kernels {

/// Keeps one warp of one SM waiting for `seconds` (at most 10), past every cache; on the default stream, not waited for.
/// Throws Error.
void idle(double seconds);

}  // namespace flashscope::kernels
