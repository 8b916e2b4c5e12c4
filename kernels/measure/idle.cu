#include "kernels/measure/idle.h"

#include <algorithm>

#include "kernels/measure/cuda_check.h"

namespace flashscope::kernels {
namespace {

__device__ unsigned long long now_ns() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void wait_for(unsigned long long ns) {
  const unsigned long long begin = now_ns();
  while (now_ns() - begin < ns) __nanosleep(1000);
}

}  // namespace

void idle(double seconds) {
  wait_for<<<1, 32>>>(static_cast<unsigned long long>(1e9 * std::clamp(seconds, 0.0, 10.0)));
  check_cuda(cudaGetLastError(), "waiting on the GPU");
}

}  // namespace flashscope::kernels
