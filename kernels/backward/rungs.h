// The backward kernels that are built, as a visible list. A backward pass goes under the name of its forward pass.
#pragma once
#include "kernels/forward/rungs.h"

namespace flashscope::kernels {

const void* three_pass_backward_kernel(int kernel, DType dtype, int head_dim, bool logged);       // 02
const void* flash_v1_backward_kernel(int kernel, DType dtype, int head_dim, bool logged);         // 04
const void* flash_v2_backward_kernel(int kernel, DType dtype, int head_dim, bool logged);         // 05
const void* flash_v2_tensor_backward_kernel(int kernel, DType dtype, int head_dim, bool logged);  // 06

// For packed sequences and block masks; their signature is (SparseParams<BackwardParams>, Observer).
const void* flash_v2_sparse_backward_kernel(int kernel, DType dtype, int head_dim, bool logged);  // 05

/// The dispatcher of an algorithm's backward pass, or nullptr where there is none. `sparse`: for packed sequences and
/// block masks.
inline KernelFunction backward_of(const std::string& algorithm, bool sparse) {
  struct Rung {
    const char* algorithm;
    KernelFunction function, sparse;
  };
  static constexpr Rung rungs[] = {
      {"three_pass", three_pass_backward_kernel, three_pass_backward_kernel},  // P is 0 where a mask says so
      {"flash_v1", flash_v1_backward_kernel, nullptr},
      {"flash_v2", flash_v2_backward_kernel, flash_v2_sparse_backward_kernel},
      {"flash_v2_tensor", flash_v2_tensor_backward_kernel, nullptr},
  };
  for (const Rung& rung : rungs)
    if (algorithm == rung.algorithm) return sparse ? rung.sparse : rung.function;
  return nullptr;
}

}  // namespace flashscope::kernels
