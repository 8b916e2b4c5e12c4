#include "kernels/measure/cuda_check.h"
#include "kernels/measure/streams.h"

namespace flashscope::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kCtasPerSm = 8;  // 2048 threads an SM: every SM asks for memory at once

// A load whose value nobody uses is dropped by the assembler. So the values go into a sum that is stored when it hits
// one number in 2^32: practically never, and the compiler cannot know.
__device__ std::uint32_t never_written;

__global__ void read_kernel(const uint4* source, std::int64_t count) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  std::uint32_t sum = 0;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    const uint4 value = __ldcg(source + i);  // cg: L1 keeps nothing
    sum += value.x ^ value.y ^ value.z ^ value.w;
  }
  if (sum == 0x9e3779b9u) never_written = sum;
}

__global__ void write_kernel(uint4* target, std::int64_t count, std::uint32_t seed) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    const std::uint32_t x = (static_cast<std::uint32_t>(i) ^ seed) * 2654435761u;  // Knuth's multiplicative hash
    target[i] = make_uint4(x, x ^ (x >> 15), x * 2246822519u, ~x);
  }
}

__global__ void copy_kernel(uint4* target, const uint4* source, std::int64_t count) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    target[i] = __ldcg(source + i);
}

__global__ void empty_kernel() {}

int full_grid() {
  int device = 0, sms = 0;
  check_cuda(cudaGetDevice(&device), "asking for the device");
  check_cuda(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device), "asking for the number of SMs");
  return sms * kCtasPerSm;
}

}  // namespace

void stream_read(const void* source, std::int64_t bytes) {
  read_kernel<<<full_grid(), kThreads>>>(static_cast<const uint4*>(source), bytes / 16);
  check_cuda(cudaGetLastError(), "launching a read of memory");
}

void stream_write(void* target, std::int64_t bytes, std::uint32_t seed) {
  write_kernel<<<full_grid(), kThreads>>>(static_cast<uint4*>(target), bytes / 16, seed);
  check_cuda(cudaGetLastError(), "launching a write of memory");
}

void stream_copy(void* target, const void* source, std::int64_t bytes) {
  copy_kernel<<<full_grid(), kThreads>>>(static_cast<uint4*>(target), static_cast<const uint4*>(source), bytes / 16);
  check_cuda(cudaGetLastError(), "launching a copy of memory");
}

void empty_launch(int ctas) {
  empty_kernel<<<ctas, 32>>>();
  check_cuda(cudaGetLastError(), "launching an empty kernel");
}

}  // namespace flashscope::kernels
