// The first kernel of split_kv for fp32, where decode_split_kv.cu finds it.
#pragma once

namespace flashscope::kernels {

/// As KernelFunction in kernels/forward/rungs.h.
const void* split_kv_fma_kernel(int head_dim, bool logged);

}  // namespace flashscope::kernels
