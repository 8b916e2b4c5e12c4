// The backward kernels that are built, as a visible list. A backward pass goes under the name of its forward pass.
#pragma once
#include "kernels/forward/rungs.h"

namespace flashscope::kernels {

const void* flash_v2_backward_kernel(int kernel, DType dtype, int head_dim, bool logged);         // 05
const void* flash_v2_tensor_backward_kernel(int kernel, DType dtype, int head_dim, bool logged);  // 06

/// The dispatcher of an algorithm's backward pass, or nullptr where there is none.
inline KernelFunction backward_of(const std::string& algorithm) {
  return algorithm == "flash_v2"          ? flash_v2_backward_kernel
         : algorithm == "flash_v2_tensor" ? flash_v2_tensor_backward_kernel
                                          : nullptr;
}

}  // namespace flashscope::kernels
