// A kernel that does nothing for a while: what the GPU's memory moves by itself meanwhile is nobody's traffic.
#pragma once

namespace flashscope::kernels {

/// Keeps one warp of one SM waiting for `seconds` (at most 10); it reads a clock and no memory. On the default stream,
/// not waited for.
/// Throws Error.
void idle(double seconds);

}  // namespace flashscope::kernels
