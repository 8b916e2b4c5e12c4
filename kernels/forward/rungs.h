// The rungs that are built, as a visible list: for each algorithm, where its kernels are. (Rungs 06 and 07: launchers.h.)
#pragma once
#include <string>

#include "sim/problem.h"

namespace flashscope::kernels {

/// A __global__ function with the signature (KernelParams, Observer), for cudaLaunchKernel and cudaFuncGetAttributes:
/// kernel number `kernel` of the schedule's list, NoObserver or (logged) OpLog. nullptr where it is not built.
using KernelFunction = const void* (*)(int kernel, DType dtype, int head_dim, bool logged);

const void* three_pass_naive_kernel(int kernel, DType dtype, int head_dim, bool logged);  // 01
const void* three_pass_kernel(int kernel, DType dtype, int head_dim, bool logged);        // 02
const void* three_pass_tensor_kernel(int kernel, DType dtype, int head_dim, bool logged);  // 03
const void* flash_v1_kernel(int kernel, DType dtype, int head_dim, bool logged);          // 04
const void* flash_v2_kernel(int kernel, DType dtype, int head_dim, bool logged);          // 05
const void* split_kv_kernel(int kernel, DType dtype, int head_dim, bool logged);          // decode

// For packed sequences and block masks; their signature is (SparseParams<KernelParams>, Observer).
const void* three_pass_sparse_kernel(int kernel, DType dtype, int head_dim, bool logged);  // 02
const void* flash_v1_sparse_kernel(int kernel, DType dtype, int head_dim, bool logged);    // 04
const void* flash_v2_sparse_kernel(int kernel, DType dtype, int head_dim, bool logged);    // 05

/// The dispatcher of an algorithm, or nullptr where it has no rung. `sparse`: for packed sequences and block masks; the
/// same ones are named in support.cpp, which must know them without CUDA.
inline KernelFunction rung_of(const std::string& algorithm, bool sparse) {
  struct Rung {
    const char* algorithm;
    KernelFunction function, sparse;
  };
  static constexpr Rung rungs[] = {
      {"three_pass_naive", three_pass_naive_kernel, nullptr},
      {"three_pass", three_pass_kernel, three_pass_sparse_kernel},
      {"three_pass_tensor", three_pass_tensor_kernel, nullptr},
      {"flash_v1", flash_v1_kernel, flash_v1_sparse_kernel},
      {"flash_v2", flash_v2_kernel, flash_v2_sparse_kernel},
      {"split_kv", split_kv_kernel, nullptr},
  };
  for (const Rung& rung : rungs)
    if (algorithm == rung.algorithm) return sparse ? rung.sparse : rung.function;
  return nullptr;
}

}  // namespace flashscope::kernels
