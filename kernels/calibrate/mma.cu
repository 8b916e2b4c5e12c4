// Tensor cores by warp instructions (mma.sync): FLOP a clock for each type of element. Operands stay in registers, so
// nothing but the tensor core and its issue is measured. On Hopper these instructions reach about two thirds of what
// wgmma does: a kernel made of them cannot be held to the datasheet's peak.
#include <cuda_fp16.h>

#include <string_view>

#include "kernels/calibrate/rig.h"

namespace flashscope::kernels {
namespace {

constexpr int kThreads = 512;  // four warps for each scheduler
constexpr int kChains = 4;     // accumulators of a warp, independent of each other
constexpr int kUnroll = 8;
constexpr int kRounds = 256;

__device__ float never_written;  // see arithmetic.cu

// Random finite elements of any type of 16 bits or 8: sign and low bits, the exponent in the middle. On zeros the
// tensor core would save power and run faster than in use.
__device__ unsigned random_bits(unsigned n, unsigned mask, unsigned fixed) {
  return (((n + 1) * 2654435761u) & mask) | fixed;
}

enum class Element { fp16, bf16, tf32, e4m3 };

/// One product and sum of a warp: 16 rows × 8 columns, as deep as 32 bytes of elements.
constexpr int depth_of(Element element) { return element == Element::tf32 ? 8 : element == Element::e4m3 ? 32 : 16; }

template <Element kElement>
struct Product;

#define FLASHSCOPE_PRODUCT(element, mask, fixed, instruction)                                                          \
  template <>                                                                                                          \
  struct Product<Element::element> {                                                                                   \
    static constexpr unsigned kMask = mask, kFixed = fixed;                                                            \
    __device__ static void run(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {                        \
      asm volatile(instruction " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                      \
                   : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                                    \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                                \
    }                                                                                                                  \
  }
#if __CUDA_ARCH__ >= 800 || !defined(__CUDA_ARCH__)
FLASHSCOPE_PRODUCT(fp16, 0x83ff83ffu, 0x30003000u, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32");
FLASHSCOPE_PRODUCT(bf16, 0x807f807fu, 0x3e003e00u, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32");
FLASHSCOPE_PRODUCT(tf32, 0x807fe000u, 0x3e000000u, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32");
#endif
#if __CUDA_ARCH__ >= 890 || !defined(__CUDA_ARCH__)
FLASHSCOPE_PRODUCT(e4m3, 0x87878787u, 0x28282828u, "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32");
#endif
#undef FLASHSCOPE_PRODUCT

#if __CUDA_ARCH__ < 800 && defined(__CUDA_ARCH__)
/// Turing has fp16 only, eight deep; two of its instructions make the sixteen of the others.
template <>
struct Product<Element::fp16> {
  static constexpr unsigned kMask = 0x83ff83ffu, kFixed = 0x30003000u;
  __device__ static void run(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                   : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                   : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
  }
};
#endif

__host__ __device__ constexpr bool exists(Element element, int capability) {
  return capability >= (element == Element::fp16 ? 75 : element == Element::e4m3 ? 89 : 80);
}

#ifdef __CUDA_ARCH__
constexpr int kCompiledFor = __CUDA_ARCH__ / 10;
#else
constexpr int kCompiledFor = 999;
#endif

template <Element kElement>
__global__ void __launch_bounds__(kThreads) multiply(CtaTicks* ticks) {
  if constexpr (exists(kElement, kCompiledFor)) {
    using P = Product<kElement>;
    unsigned a[4], b[2];
    float c[kChains][4];  // no two alike: equal chains could be computed once
#pragma unroll
    for (int n = 0; n < 4 * kChains; ++n) c[n / 4][n % 4] = 0.01f * static_cast<float>(n);
#pragma unroll
    for (int n = 0; n < 4; ++n) a[n] = random_bits(threadIdx.x * 4 + n, P::kMask, P::kFixed);
#pragma unroll
    for (int n = 0; n < 2; ++n) b[n] = random_bits(threadIdx.x * 2 + n + 5000, P::kMask, P::kFixed);
    CtaWatch watch;
    watch.start();
#pragma unroll 1
    for (int round = 0; round < kRounds; ++round) {
#pragma unroll
      for (int step = 0; step < kUnroll; ++step)
#pragma unroll
        for (int chain = 0; chain < kChains; ++chain) P::run(c[chain], a, b);
    }
    watch.stop(ticks);
    float sum = 0;
#pragma unroll
    for (int chain = 0; chain < kChains; ++chain) sum += c[chain][0] + c[chain][1] + c[chain][2] + c[chain][3];
    if (sum == 0.12345678f) never_written = sum;
  }
}

constexpr const char* kMmaField = "mma_flops_per_clk";

template <Element kElement>
void add_rate(Rig& rig, const char* name, const char* field) {
  constexpr const char* kGroup = "tensor cores, mma.sync";
  if (!exists(kElement, rig.capability()))
    return rig.add(unmeasured(kGroup, name, "FLOP/clk/SM", "this GPU has no such instruction"));
  cudaFuncAttributes attributes{};
  check_cuda(cudaFuncGetAttributes(&attributes, multiply<kElement>), "asking for a kernel of mma.sync");
  if (!exists(kElement, attributes.ptxVersion))
    return rig.add(unmeasured(kGroup, name, "FLOP/clk/SM", "not built for this GPU's instruction set"));
  const TickSamples samples =
      rig.time_ctas(rig.sms(), [&](CtaTicks* ticks) { multiply<kElement><<<rig.sms(), kThreads>>>(ticks); });
  constexpr double kFlops = 2.0 * 16 * 8 * depth_of(kElement) * kChains * kUnroll * kRounds * (kThreads / 32);
  std::vector<double> rates;
  for (double clocks : samples.clocks) rates.push_back(kFlops / clocks);
  Reading reading = summarise(kGroup, name, "FLOP/clk/SM", rates,
                              "four chains of products a warp, 16 warps an SM, operands in registers");
  // Hopper and its server successors reach their full rate by other instructions: wgmma.cu fills Hopper's fields, and
  // only the rate of these instructions themselves comes from here.
  const bool reaches_peak = rig.capability() < 90 || rig.capability() >= 120;
  if (reaches_peak || std::string_view(field) == kMmaField) reading.field = field;
  rig.add(reading);
}

}  // namespace

void measure_mma(Rig& rig) {
  add_rate<Element::fp16>(rig, "fp16", "tensor_fp16_flops_per_clk");
  add_rate<Element::bf16>(rig, "bf16", kMmaField);
  add_rate<Element::tf32>(rig, "tf32", "");
  add_rate<Element::e4m3>(rig, "fp8 (e4m3)", "tensor_fp8_flops_per_clk");
}

}  // namespace flashscope::kernels
