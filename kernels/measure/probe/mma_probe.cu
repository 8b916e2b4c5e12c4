// flashscope_mma_probe: what does a warp scheduler still issue while mma.sync runs? Loops of products of 16 × 8 × 16 with
// other instructions between them, independent of each other, by one, two and three warps a scheduler.
//
//   flashscope_mma_probe        a table on standard output; exit code 0, or 4 where there is no GPU
//
// If tensor cores ran beside the other units, the clocks of a product would stay what they are alone until those units
// were full. No attention kernel takes part.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "kernels/common/mma.cuh"
#include "kernels/measure/cuda_check.h"
#include "kernels/measure/probe/probe_main.h"

namespace flashscope::kernels {
namespace {

constexpr int kProducts = 16, kRounds = 512;  // of a loop; loops
constexpr int kThreads = 128;                 // a warp a scheduler
constexpr int kMostCtas = 3;                  // an SM

enum class Other { none, fma, add, max, convert, exp2, ldmatrix };

/// One instruction that leaves `x` a finite number; `smem` is where ldmatrix reads.
template <Other kOther>
__device__ __forceinline__ void issue(float& x, float y, unsigned smem) {
  if constexpr (kOther == Other::fma) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x) : "f"(y));
  if constexpr (kOther == Other::add) asm volatile("add.f32 %0, %0, %1;" : "+f"(x) : "f"(y));
  if constexpr (kOther == Other::max) asm volatile("max.f32 %0, %0, %1;" : "+f"(x) : "f"(y));
  if constexpr (kOther == Other::exp2) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
  if constexpr (kOther == Other::convert) {
    unsigned pair;
    asm volatile("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(x), "f"(y));
    x = __uint_as_float(pair);
  }
  if constexpr (kOther == Other::ldmatrix) {
    const FragmentA a = load_a(smem);
    x = __uint_as_float(a.x[0]);
  }
}

/// kCount instructions after every kEvery products.
template <Other kOther, int kCount, int kEvery>
__global__ void __launch_bounds__(kThreads, kMostCtas) products(float y, float* sink, long long* clocks) {
#if __CUDA_ARCH__ >= 800
  __shared__ __align__(kSmemAlignment) __nv_bfloat16 smem[16 * 64];
  for (int n = threadIdx.x; n < 16 * 64; n += kThreads) smem[n] = narrow<__nv_bfloat16>(0.25f * (n % 7 - 3));
  __syncthreads();
  const unsigned lane = lane_of_a<64>(smem, 0);
  const FragmentA a = load_a(lane);
  FragmentB b[2];
  load_b(b, lane);
  Accumulator acc[kProducts] = {};
  float x[kProducts];
  for (int n = 0; n < kProducts; ++n) x[n] = n;
  const long long begin = clock64();
#pragma unroll 1
  for (int round = 0; round < kRounds; ++round)
#pragma unroll
    for (int n = 0; n < kProducts; ++n) {
      multiply_add<__nv_bfloat16>(acc[n], a, b[n % 2]);
      if (n % kEvery == 0)
#pragma unroll
        for (int k = 0; k < kCount; ++k) issue<kOther>(x[(n * kCount + k) % kProducts], y, lane);
    }
  const long long end = clock64();
  float sum = 0;
  for (int n = 0; n < kProducts; ++n) sum += acc[n].x[0] + acc[n].x[1] + acc[n].x[2] + acc[n].x[3] + x[n];
  if (sum == 12345.678f) *sink = sum;  // never, but the compiler cannot know
  if (threadIdx.x == 0) clocks[blockIdx.x] = end - begin;
#endif
}

template <Other kOther = Other::none, int kCount = 0, int kEvery = 1>
void row(const char* what, int num_sms) {
  const DeviceBuffer sink(sizeof(float), "the probe"), clocks(8 * kMostCtas * num_sms, "the probe");
  std::printf("%-28s", what);
  for (int ctas = 1; ctas <= kMostCtas; ++ctas) {
    std::vector<long long> of_ctas(static_cast<std::size_t>(ctas * num_sms));
    products<kOther, kCount, kEvery><<<ctas * num_sms, kThreads>>>(
        0.5f, reinterpret_cast<float*>(sink.data()), reinterpret_cast<long long*>(clocks.data()));
    check_cuda(cudaGetLastError(), "launching the probe");
    check_cuda(cudaMemcpy(of_ctas.data(), clocks.data(), 8 * of_ctas.size(), cudaMemcpyDeviceToHost), "the probe");
    std::nth_element(of_ctas.begin(), of_ctas.begin() + of_ctas.size() / 2, of_ctas.end());
    std::printf("%8.2f", static_cast<double>(of_ctas[of_ctas.size() / 2]) / (kRounds * kProducts * ctas));
  }
  std::printf("\n");
}

int tables() {
  int device = 0, num_sms = 0;
  check_cuda(cudaGetDevice(&device), "asking for the GPU");
  check_cuda(cudaDeviceGetAttribute(&num_sms, cudaDevAttrMultiProcessorCount, device), "asking for the number of SMs");
  std::printf("clocks of a scheduler for a product of 16 x 8 x 16 (bf16) and what goes with it\n%-28s%8s%8s%8s\n", "",
              "1 warp", "2 warps", "3 warps");
  row("product", num_sms);
  row<Other::fma, 1>("+ 1 multiply-add", num_sms);
  row<Other::fma, 2>("+ 2", num_sms);
  row<Other::fma, 4>("+ 4", num_sms);
  row<Other::fma, 6>("+ 6", num_sms);
  row<Other::add, 2>("+ 2 additions", num_sms);
  row<Other::max, 1>("+ 1 maximum", num_sms);
  row<Other::max, 2>("+ 2", num_sms);
  row<Other::convert, 1>("+ 1 rounding of a pair", num_sms);
  row<Other::exp2, 1>("+ 1 exponential", num_sms);
  row<Other::exp2, 1, 2>("+ 1/2 exponential", num_sms);
  row<Other::ldmatrix, 1, 4>("+ 1/4 ldmatrix", num_sms);
  row<Other::ldmatrix, 1, 2>("+ 1/2 ldmatrix", num_sms);
  return 0;
}

}  // namespace
}  // namespace flashscope::kernels

int main() { return flashscope::kernels::probe_main("flashscope_mma_probe", flashscope::kernels::tables); }
