#include "kernels/hopper/tensor_map.h"

#include <cuda_runtime.h>

#include <string>

#include "kernels/hopper/tma.cuh"
#include "sim/error.h"
#include "sim/schedule/hopper_backward.h"

namespace flashscope::kernels {
namespace {

using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*,
                            const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                            CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/// Asked for at run time, so that the program links no libcuda and starts where there is none.
Encode encode_function() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found);
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess || !function)
    throw Error(ErrorKind::resource, "the driver has no cuTensorMapEncodeTiled: it is older than CUDA 12");
  return reinterpret_cast<Encode>(function);
}

CUtensorMap encoded(CUtensorMapDataType type, int element_bytes, CUtensorMapSwizzle swizzle, const void* base, int heads,
                    int rows, int cols, int box_rows, int box_cols) {
  static const Encode encode = encode_function();
  const cuuint64_t row_bytes = static_cast<cuuint64_t>(element_bytes) * static_cast<cuuint64_t>(cols);
  const cuuint64_t some_rows = rows > 0 ? static_cast<cuuint64_t>(rows) : 1;  // an empty tensor has no map; none is read
  const cuuint64_t dims[] = {static_cast<cuuint64_t>(cols), some_rows, static_cast<cuuint64_t>(heads)};
  const cuuint64_t strides[] = {row_bytes, row_bytes * some_rows};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(box_cols), static_cast<cuuint32_t>(box_rows), 1}, every[] = {1, 1, 1};
  CUtensorMap map;
  const CUresult result =
      encode(&map, type, 3, const_cast<void*>(base), dims, strides, box, every, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    throw Error(ErrorKind::internal, "cuTensorMapEncodeTiled refused " + std::to_string(heads) + " x " +
                                         std::to_string(rows) + " x " + std::to_string(cols) + ": error " +
                                         std::to_string(static_cast<int>(result)));
  return map;
}

}  // namespace

CUtensorMap make_tensor_map(DType dtype, const void* base, int heads, int rows, int cols, int box_rows) {
  return encoded(dtype == DType::fp16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2,
                 CU_TENSOR_MAP_SWIZZLE_128B, base, heads, rows, cols, box_rows, kAtomColumns);
}

CUtensorMap make_sum_tensor_map(const void* base, int heads, int rows, int cols, int box_rows) {
  return encoded(CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, CU_TENSOR_MAP_SWIZZLE_128B, base, heads, rows, cols, box_rows,
                 kSumBoxColumns);
}

CUtensorMap make_byte_tensor_map(const void* base, int heads, int rows, int cols, int box_rows, int box_cols) {
  return encoded(CU_TENSOR_MAP_DATA_TYPE_UINT8, 1,
                 box_cols == kAtomRowBytes ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B, base, heads, rows,
                 cols, box_rows, box_cols);
}

}  // namespace flashscope::kernels
