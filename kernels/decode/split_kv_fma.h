// The first kernel of split_kv for fp32, where decode_split_kv.cu finds it.
#pragma once

namespace flashscope::kernels {

/// As KernelFunction in kernels/forward/rungs.h. `is_paged`: K and V in pages; it then takes (PagedParams, Observer).
const void* split_kv_fma_kernel(int head_dim, bool logged, bool is_paged);

}  // namespace flashscope::kernels
