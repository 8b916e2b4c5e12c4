// Shared memory: bytes a clock when no two lanes meet in a bank, and clocks until a value asked for is there. The
// latencies of a shuffle and an exponential stand beside it: the model takes one number for all three.
#include "kernels/calibrate/rig.h"

namespace flashscope::kernels {
namespace {

constexpr int kThreads = 1024;
constexpr int kRounds = 512;
constexpr int kLoads = 4;  // under way at once in each thread
constexpr int kSteps = 1024;  // of a chain

__device__ unsigned never_written;  // see arithmetic.cu

__device__ unsigned smem_address(const void* at) { return static_cast<unsigned>(__cvta_generic_to_shared(at)); }

/// Every lane reads 16 consecutive bytes after its neighbour's: a warp takes 512 B, four wavefronts of all 32 banks.
__global__ void __launch_bounds__(kThreads) read_rows(CtaTicks* ticks) {
  __shared__ uint4 data[kThreads];
  data[threadIdx.x] = make_uint4(threadIdx.x, ~threadIdx.x, threadIdx.x * 2654435761u, 77);
  const unsigned base = smem_address(data);
  unsigned at = threadIdx.x * 16, sum = 0;
  CtaWatch watch;
  watch.start();
#pragma unroll 1
  for (int round = 0; round < kRounds; ++round) {
    uint4 x[kLoads];
#pragma unroll
    for (int n = 0; n < kLoads; ++n)
      asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(x[n].x), "=r"(x[n].y), "=r"(x[n].z), "=r"(x[n].w)
                   : "r"(base + ((at + n * 512) & (16 * kThreads - 1))));
#pragma unroll
    for (int n = 0; n < kLoads; ++n) sum ^= x[n].x ^ x[n].y ^ x[n].z ^ x[n].w;
    at += 512 * kLoads;
  }
  watch.stop(ticks);
  if (sum == 0x9e3779b9u) never_written = sum;
}

enum class Chain { shared, shuffle, exp2 };

/// One warp, each step waiting for the one before.
template <Chain kChain>
__global__ void walk(CtaTicks* ticks) {
  __shared__ unsigned next[32];
  next[threadIdx.x] = smem_address(&next[threadIdx.x]);  // each word holds its own address: the chain stays in place
  unsigned at = smem_address(&next[threadIdx.x]);
  float x = 0.5f;
  CtaWatch watch;
  watch.start();
#pragma unroll 16
  for (int step = 0; step < kSteps; ++step) {
    if constexpr (kChain == Chain::shared) asm volatile("ld.volatile.shared.u32 %0, [%0];" : "+r"(at));
    if constexpr (kChain == Chain::shuffle)
      asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 31, 0xffffffff;" : "+r"(at));
    if constexpr (kChain == Chain::exp2) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
  }
  watch.stop(ticks);
  if (at == 1 || x == 0.12345678f) never_written = at;
}

template <Chain kChain>
void add_latency(Rig& rig, const char* name, const char* field, const char* method) {
  const TickSamples samples = rig.time_ctas(rig.sms(), [&](CtaTicks* ticks) { walk<kChain><<<rig.sms(), 32>>>(ticks); });
  std::vector<double> clocks;
  for (double c : samples.clocks) clocks.push_back(c / kSteps);
  Reading reading = summarise("shared memory", name, "clk", clocks, method);
  reading.field = field;
  rig.add(reading);
}

}  // namespace

void measure_shared_memory(Rig& rig) {
  const TickSamples samples =
      rig.time_ctas(rig.sms(), [&](CtaTicks* ticks) { read_rows<<<rig.sms(), kThreads>>>(ticks); });
  std::vector<double> rates;
  for (double clocks : samples.clocks) rates.push_back(16.0 * kThreads * kLoads * kRounds / clocks);
  Reading reading = summarise("shared memory", "reads without bank conflicts", "B/clk/SM", rates,
                              "16 B a lane, 1024 threads, four loads under way in each");
  reading.field = "smem_bytes_per_clk";
  rig.add(reading);

  add_latency<Chain::shared>(rig, "latency of a read", "on_chip_latency_clk",
                             "one warp, each read's address is the result of the one before");
  add_latency<Chain::shuffle>(rig, "latency of a shuffle", "", "one warp, each shuffles the result of the one before");
  add_latency<Chain::exp2>(rig, "latency of an exponential", "", "one warp, ex2.approx of the result before");
}

}  // namespace flashscope::kernels
