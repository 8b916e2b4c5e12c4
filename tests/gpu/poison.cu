#include "poison.h"

#include "kernels/measure/cuda_check.h"

namespace flashscope::kernels {
namespace {

__global__ void fill_with_nan(int words, int* sink) {
  extern __shared__ int words_of_cta[];
  for (int n = threadIdx.x; n < words; n += blockDim.x) words_of_cta[n] = -1;
  __syncthreads();
  if (words_of_cta[(threadIdx.x + 1) % words] == 0) *sink = 1;  // never: keeps the stores
}

}  // namespace

void fill_shared_memory_with_nan() {
  int device = 0, bytes = 0, sms = 0;
  check_cuda(cudaGetDevice(&device), "asking for the GPU");
  check_cuda(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "asking for its limits");
  check_cuda(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device), "asking for its limits");
  check_cuda(cudaFuncSetAttribute(fill_with_nan, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "fill_with_nan");
  fill_with_nan<<<4 * sms, 256, bytes>>>(bytes / 4, nullptr);
  check_cuda(cudaGetLastError(), "fill_with_nan");
  check_cuda(cudaDeviceSynchronize(), "fill_with_nan");
}

}  // namespace flashscope::kernels
