// Tensor cores by warpgroup instructions (wgmma, Hopper): four warps multiply 64 rows by N columns at once, both operands
// read from shared memory by the tensor core itself. FLOP a clock for each type of element, and for narrower N: too few
// columns, and reading A costs more than multiplying it.
#include "kernels/calibrate/rig.h"

namespace flashscope::kernels {
namespace {

constexpr int kWarpgroups = 2;  // one waits at its fence while the other computes
constexpr int kThreads = 128 * kWarpgroups;
constexpr int kRows = 64;          // of A, fixed by the instruction
constexpr int kRowBytes = 128;     // a row of a tile: 64 elements of 16 bits, or the same bytes of another type
constexpr int kStepBytes = 32;     // depth of one instruction: 16 elements of 16 bits
constexpr int kSteps = kRowBytes / kStepBytes;
constexpr int kTiles = 4;  // times over the same tile between two waits
constexpr int kRounds = 64;
constexpr int kMaxColumns = 256;
constexpr int kSmemBytes = kWarpgroups * kRows * kRowBytes + kMaxColumns * kRowBytes + 1024;

enum class Element { fp16, bf16, tf32, e4m3 };

[[maybe_unused]] __device__ float never_written;  // see arithmetic.cu

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// Where the tensor core finds a tile, in the words of the PTX manual, "matrix descriptor": address, bytes from eight rows
/// to the next eight, and rows of 128 bytes swizzled, as TMA writes them. All in units of 16 bytes.
__device__ unsigned long long descriptor(unsigned smem) {
  constexpr unsigned long long kEightRows = 8 * kRowBytes / 16, kSwizzle128 = 1;
  return (smem & 0x3ffffu) >> 4 | 1ull << 16 | kEightRows << 32 | kSwizzle128 << 62;
}

// The operand lists of a product with 32, 64 or 128 accumulators a thread.
#define R8(c, n) "+f"(c[n]), "+f"(c[n + 1]), "+f"(c[n + 2]), "+f"(c[n + 3]), "+f"(c[n + 4]), "+f"(c[n + 5]), "+f"(c[n + 6]), "+f"(c[n + 7])
#define R32(c, n) R8(c, n), R8(c, n + 8), R8(c, n + 16), R8(c, n + 24)
#define T32 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                   \
            "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define T64 T32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                   \
                "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define T128 T64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "                  \
                 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "                    \
                 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "        \
                 "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

/// columns = N; tail: scale and sign of the operands, and for 16 bits that both are stored along the depth.
#define FLASHSCOPE_WGMMA(columns, shape, tail)                                                                         \
  if constexpr (kColumns == columns && columns == 64)                                                                  \
    asm volatile("wgmma.mma_async.sync.aligned.m64n64" shape " {" T32 "}, %32, %33, " tail ";"                         \
                 : R32(c, 0)                                                                                           \
                 : "l"(a), "l"(b));                                                                                    \
  if constexpr (kColumns == columns && columns == 128)                                                                 \
    asm volatile("wgmma.mma_async.sync.aligned.m64n128" shape " {" T64 "}, %64, %65, " tail ";"                        \
                 : R32(c, 0), R32(c, 32)                                                                               \
                 : "l"(a), "l"(b));                                                                                    \
  if constexpr (kColumns == columns && columns == 256)                                                                 \
    asm volatile("wgmma.mma_async.sync.aligned.m64n256" shape " {" T128 "}, %128, %129, " tail ";"                     \
                 : R32(c, 0), R32(c, 32), R32(c, 64), R32(c, 96)                                                       \
                 : "l"(a), "l"(b))

template <Element kElement, int kColumns>
__device__ void product(float (&c)[kColumns / 2], unsigned long long a, unsigned long long b) {
  if constexpr (kElement == Element::fp16) {
    FLASHSCOPE_WGMMA(kColumns, "k16.f32.f16.f16", "1, 1, 1, 0, 0");
  }
  if constexpr (kElement == Element::bf16) {
    FLASHSCOPE_WGMMA(kColumns, "k16.f32.bf16.bf16", "1, 1, 1, 0, 0");
  }
  if constexpr (kElement == Element::tf32) {
    FLASHSCOPE_WGMMA(kColumns, "k8.f32.tf32.tf32", "1, 1, 1");
  }
  if constexpr (kElement == Element::e4m3) {
    FLASHSCOPE_WGMMA(kColumns, "k32.f32.e4m3.e4m3", "1, 1, 1");
  }
}
#endif

template <Element kElement, int kColumns>
__global__ void __launch_bounds__(kThreads) multiply([[maybe_unused]] CtaTicks* ticks) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ char smem[];
  // Random finite elements: the exponent is fixed, sign and low bits are not (mma.cu says why not zeros).
  constexpr unsigned kMask = kElement == Element::fp16   ? 0x83ff83ffu
                             : kElement == Element::bf16 ? 0x807f807fu
                             : kElement == Element::tf32 ? 0x807fe000u
                                                         : 0x87878787u;
  constexpr unsigned kFixed = kElement == Element::fp16   ? 0x30003000u
                              : kElement == Element::bf16 ? 0x3e003e00u
                              : kElement == Element::tf32 ? 0x3e000000u
                                                          : 0x28282828u;
  unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(smem));
  const unsigned aligned = (base + 1023) / 1024 * 1024;  // what a swizzle of 128 bytes needs
  auto* words = reinterpret_cast<unsigned*>(smem + (aligned - base));
  for (int n = threadIdx.x; n < (kSmemBytes - 1024) / 4; n += kThreads)
    words[n] = (((n + 1) * 2654435761u) & kMask) | kFixed;
  asm volatile("fence.proxy.async;" ::: "memory");  // the tensor core reads by another path than the stores above
  const unsigned b_tile = aligned + kWarpgroups * kRows * kRowBytes;
  const unsigned a_tile = aligned + threadIdx.x / 128 * kRows * kRowBytes;
  float c[kColumns / 2];
#pragma unroll
  for (int n = 0; n < kColumns / 2; ++n) c[n] = 0;
  CtaWatch watch;
  watch.start();
#pragma unroll 1
  for (int round = 0; round < kRounds; ++round) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int step = 0; step < kTiles * kSteps; ++step) {
      const unsigned at = step % kSteps * kStepBytes;
      product<kElement, kColumns>(c, descriptor(a_tile + at), descriptor(b_tile + at));
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  watch.stop(ticks);
  float sum = 0;
#pragma unroll
  for (int n = 0; n < kColumns / 2; ++n) sum += c[n];
  if (sum == 0.12345678f) never_written = sum;
#endif
}

constexpr const char* kGroupName = "tensor cores, wgmma";

template <Element kElement, int kColumns>
TickSamples add_rate(Rig& rig, const char* name) {
  const auto kernel = multiply<kElement, kColumns>;
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSmemBytes),
             "shared memory of a wgmma kernel");
  const TickSamples samples = rig.time_ctas(
      rig.sms(), [&](CtaTicks* ticks) { kernel<<<rig.sms(), kThreads, kSmemBytes>>>(ticks); });
  constexpr double kDepth = kStepBytes / (kElement == Element::tf32 ? 4.0 : kElement == Element::e4m3 ? 1.0 : 2.0);
  constexpr double kFlops = 2.0 * kRows * kColumns * kDepth * kTiles * kSteps * kRounds * kWarpgroups;
  std::vector<double> rates;
  for (double clocks : samples.clocks) rates.push_back(kFlops / clocks);
  rig.add(summarise(kGroupName, name, "FLOP/clk/SM", rates,
                    "two warpgroups an SM, 64 rows each, operands in shared memory, random elements"));
  return samples;
}

}  // namespace

void measure_wgmma(Rig& rig) {
  cudaFuncAttributes attributes{};
  check_cuda(cudaFuncGetAttributes(&attributes, multiply<Element::fp16, 128>), "asking for a kernel of wgmma");
  if (rig.capability() / 10 != 9 || attributes.ptxVersion != 90) {
    rig.add(unmeasured(kGroupName, "all", "FLOP/clk/SM",
                       rig.capability() / 10 != 9 ? "this GPU has no such instruction" : "not built for sm_90a"));
    return;
  }
  const std::size_t first = rig.readings.size();
  add_rate<Element::fp16, 64>(rig, "fp16, 64 columns");
  add_rate<Element::fp16, 128>(rig, "fp16, 128 columns");
  const TickSamples busy = add_rate<Element::fp16, 256>(rig, "fp16, 256 columns");
  take_largest(rig.readings, first, "tensor_fp16_flops_per_clk");
  add_rate<Element::bf16, 128>(rig, "bf16, 128 columns");
  add_rate<Element::tf32, 128>(rig, "tf32, 128 columns");
  const std::size_t fp8 = rig.readings.size();
  add_rate<Element::e4m3, 128>(rig, "fp8 (e4m3), 128 columns");
  add_rate<Element::e4m3, 256>(rig, "fp8 (e4m3), 256 columns");
  take_largest(rig.readings, fp8, "tensor_fp8_flops_per_clk");
  rig.add(summarise("clock", "SM clock under wgmma", "MHz", busy.mhz,
                    "in short bursts; a tensor core busy for long may run into the power limit"));
}

}  // namespace flashscope::kernels
