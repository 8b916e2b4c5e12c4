// Which template instances of a tiled rung are built: three storage dtypes × four head_dim widths, and for the log two
// dtypes in one width (whose tile is that of the narrower one). These are the only template axes; everything else is a
// run-time argument.
#pragma once
#include "kernels/common/tile.cuh"
#include "sim/problem.h"

namespace flashscope::kernels {

/// `Kernel::template function<T, kWidth, Observer>()` gives the address of an instance.
template <class Kernel, class T>
const void* instance_by_width(int head_dim) {
  switch (fma_width(head_dim)) {
    case 32: return Kernel::template function<T, 32, NoObserver>();
    case 64: return Kernel::template function<T, 64, NoObserver>();
    case 128: return Kernel::template function<T, 128, NoObserver>();
    case 256: return Kernel::template function<T, 256, NoObserver>();
    default: return nullptr;
  }
}

template <class Kernel>
const void* instance(DType dtype, int head_dim, bool logged) {
  if (logged) {
    if (head_dim <= 32 || head_dim > 64) return nullptr;  // one width is enough to compare loops
    if (dtype == DType::fp32) return Kernel::template function<float, 64, OpLog>();
    if (dtype == DType::bf16) return Kernel::template function<__nv_bfloat16, 64, OpLog>();
    return nullptr;
  }
  switch (dtype) {
    case DType::fp32: return instance_by_width<Kernel, float>(head_dim);
    case DType::fp16: return instance_by_width<Kernel, __half>(head_dim);
    case DType::bf16: return instance_by_width<Kernel, __nv_bfloat16>(head_dim);
    default: return nullptr;
  }
}

}  // namespace flashscope::kernels
