#pragma once

namespace flashscope::kernels {

/// Runs a kernel that fills the shared memory of every SM with NaN, so that the next one starts on dirty memory.
void fill_shared_memory_with_nan();

}  // namespace flashscope::kernels
