// How many float32 multiply-adds, integer operations and exponentials an SM finishes in a clock; and the SM clock while
// it does. One CTA of 1,024 threads an SM: eight warps for each scheduler, each with eight independent chains, more
// than any latency of these units needs.
#include "kernels/calibrate/rig.h"

namespace flashscope::kernels {
namespace {

constexpr int kThreads = 1024;
constexpr int kChains = 8;    // independent of each other, in each thread
constexpr int kUnroll = 16;   // steps of every chain between two tests of the loop
constexpr int kRounds = 256;
constexpr double kOperations = double{kThreads} * kChains * kUnroll * kRounds;  // of an SM

// A result that nobody uses is not computed. This is stored when it hits one number: practically never.
__device__ float never_written;

// Volatile throughout: the compiler must not move work to the other side of a clock.
struct Fma {
  __device__ static void step(float (&x)[kChains], float a, float b) {
#pragma unroll
    for (float& v : x) asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(v) : "f"(a), "f"(b));
  }
};

struct Exp2 {
  __device__ static void step(float (&x)[kChains], float, float) {
#pragma unroll
    for (float& v : x) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(v));
  }
};

// A comparison and a selection in one. Each chain meets its neighbour's newest value, so nothing can be left out.
struct Min {
  __device__ static void step(float (&x)[kChains], float, float) {
#pragma unroll
    for (int n = 0; n < kChains; ++n) {
      int v = __float_as_int(x[n]);
      asm volatile("min.s32 %0, %0, %1;" : "+r"(v) : "r"(__float_as_int(x[(n + 3) % kChains])));
      x[n] = __int_as_float(v);
    }
  }
};

template <class Operation>
__global__ void __launch_bounds__(kThreads) chains(CtaTicks* ticks, float a, float b, int rounds) {
  float x[kChains];
#pragma unroll
  for (int n = 0; n < kChains; ++n) x[n] = 0.125f * n - 0.001f * threadIdx.x;
  CtaWatch watch;
  watch.start();
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int step = 0; step < kUnroll; ++step) Operation::step(x, a, b);
  }
  watch.stop(ticks);
  float sum = 0;
#pragma unroll
  for (float v : x) sum += v;
  if (sum == 0.12345678f) never_written = sum;
}

template <class Operation>
TickSamples run(Rig& rig, int rounds = kRounds) {
  return rig.time_ctas(rig.sms(), [&](CtaTicks* ticks) {
    chains<Operation><<<rig.sms(), kThreads>>>(ticks, 0.999f, 0.001f, rounds);
  });
}

void add_rate(Rig& rig, const char* name, const char* unit, double per_operation, const TickSamples& samples,
              const char* field, const char* method) {
  std::vector<double> rates;
  for (double clocks : samples.clocks) rates.push_back(per_operation * kOperations / clocks);
  Reading reading = summarise("arithmetic", name, unit, rates, method);
  reading.field = field;
  rig.add(reading);
}

}  // namespace

void measure_arithmetic(Rig& rig) {
  // The clock: long enough that a timer with steps of 1 µs is right to 0.1 %.
  const TickSamples busy = run<Fma>(rig, 16 * kRounds);
  Reading clock = summarise("clock", "SM clock under float32 load", "MHz", busy.mhz,
                            "clock64 over the global timer, while every SM multiplies and adds");
  clock.field = "sm_clock_mhz";
  rig.mhz = *clock.value.value;
  rig.add(clock);

  add_rate(rig, "float32 multiply-adds", "FLOP/clk/SM", 2, run<Fma>(rig), "fma_flops_per_clk",
           "eight chains of fma a thread, 1024 threads, one CTA an SM");
  add_rate(rig, "integer minimum", "op/clk/SM", 1, run<Min>(rig), "alu_ops_per_clk",
           "eight chains of min.s32 a thread: a comparison and a selection");
  add_rate(rig, "exponentials", "op/clk/SM", 1, run<Exp2>(rig), "exps_per_clk", "eight chains of ex2.approx a thread");
}

}  // namespace flashscope::kernels
