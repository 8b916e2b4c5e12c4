// What it costs that work begins and that threads wait for each other: a barrier, the start of a CTA, the gap between two
// kernels, and a launch seen from the host.
#include <algorithm>
#include <chrono>

#include "kernels/calibrate/rig.h"
#include "kernels/measure/statistics.h"
#include "kernels/measure/streams.h"

namespace flashscope::kernels {
namespace {

// ---- barriers -------------------------------------------------------------------------------------------------------

constexpr int kBarriers = 1024;

__global__ void barriers(CtaTicks* ticks) {
  CtaWatch watch;
  watch.start();
#pragma unroll 16
  for (int n = 0; n < kBarriers; ++n) asm volatile("barrier.sync.aligned 0;" ::: "memory");
  watch.stop(ticks);
}

// ---- the start of a CTA ---------------------------------------------------------------------------------------------

constexpr int kStartThreads = 256;
constexpr int kCtasOfAnSm = 16;  // one after the other

struct CtaStart {
  int sm;
  long long clock;  // of that SM, at the first instruction
};

/// Notes when it began, stays for `stay` clocks and leaves. With all of an SM's shared memory in its hand no other CTA
/// can be there, so the next one starts when this one is gone.
__global__ void note_start(CtaStart* starts, int stay) {
  const long long begin = clock64();
  if (threadIdx.x == 0) {
    int sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    starts[blockIdx.x] = {sm, begin};
  }
  while (clock64() - begin < stay) {
  }
}

/// Nanoseconds from the end of a CTA to the first instruction of the next on the same SM: the median over all pairs.
double cta_start_ns(const Rig& rig, std::vector<CtaStart> starts, int stay) {
  std::sort(starts.begin(), starts.end(), [](const CtaStart& a, const CtaStart& b) {
    return a.sm != b.sm ? a.sm < b.sm : a.clock < b.clock;
  });
  std::vector<double> ns;
  for (std::size_t n = 1; n < starts.size(); ++n)
    if (starts[n].sm == starts[n - 1].sm)
      ns.push_back(1e3 * static_cast<double>(starts[n].clock - starts[n - 1].clock - stay) / rig.mhz);
  return median(ns);
}

Reading cta_start(Rig& rig) {
  constexpr int kStay = 10000;  // clocks
  const int ctas = rig.sms() * kCtasOfAnSm, smem = rig.smem_per_cta();
  check_cuda(cudaFuncSetAttribute(note_start, cudaFuncAttributeMaxDynamicSharedMemorySize, smem), "timing CTA starts");
  const DeviceBuffer buffer(ctas * static_cast<std::int64_t>(sizeof(CtaStart)), "timing CTA starts");
  std::vector<CtaStart> starts(static_cast<std::size_t>(ctas));
  std::vector<double> samples;
  for (int n = -1; n < rig.launches(); ++n) {
    note_start<<<ctas, kStartThreads, smem>>>(static_cast<CtaStart*>(static_cast<void*>(buffer.data())), kStay);
    check_cuda(cudaMemcpy(starts.data(), buffer.data(), starts.size() * sizeof(CtaStart), cudaMemcpyDeviceToHost),
               "timing CTA starts");
    if (n >= 0) samples.push_back(cta_start_ns(rig, starts, kStay));
  }
  Reading reading = summarise("launches", "CTA start", "ns", samples,
                              "from the end of a CTA of 256 threads to the first instruction of the next on its SM, which "
                              "holds one at a time; the end is known to one turn of a waiting loop");
  reading.field = "cta_start_ns";
  return reading;
}

// ---- the gap between kernels ----------------------------------------------------------------------------------------

constexpr int kChain = 64;  // kernels in a row

/// From the first instruction of any CTA to the last of any, on the global timer.
struct KernelSpan {
  unsigned long long first, last;
};

__global__ void note_span(KernelSpan* span, int stay) {
  if (threadIdx.x == 0) {
    atomicMin(&span->first, CtaWatch::global_ns());
    const long long begin = clock64();
    while (clock64() - begin < stay) {
    }
    atomicMax(&span->last, CtaWatch::global_ns());
  }
}

/// Mean gap of a chain, which averages over the steps of the timer: one sample a chain.
std::vector<double> gaps_us(const Rig& rig, int ctas) {
  constexpr int kStay = 30000;  // clocks: 15 µs or so, so that the host is always ahead
  const std::vector<KernelSpan> unset(kChain, {~0ull, 0});
  const DeviceBuffer buffer(kChain * static_cast<std::int64_t>(sizeof(KernelSpan)), "timing launch gaps");
  auto* const on_gpu = static_cast<KernelSpan*>(static_cast<void*>(buffer.data()));
  std::vector<KernelSpan> spans(kChain);
  std::vector<double> samples;
  for (int n = -1; n < rig.launches(); ++n) {
    check_cuda(cudaMemcpy(on_gpu, unset.data(), kChain * sizeof(KernelSpan), cudaMemcpyHostToDevice),
               "timing launch gaps");
    for (int k = 0; k < kChain; ++k) note_span<<<ctas, 32>>>(on_gpu + k, kStay);
    check_cuda(cudaMemcpy(spans.data(), on_gpu, kChain * sizeof(KernelSpan), cudaMemcpyDeviceToHost),
               "timing launch gaps");
    double gaps = 0;
    for (int k = 1; k < kChain; ++k)
      gaps += static_cast<double>(static_cast<long long>(spans[k].first - spans[k - 1].last)) / 1e3;
    if (n >= 0) samples.push_back(gaps / (kChain - 1));
  }
  return samples;
}

// ---- a launch seen from the host ------------------------------------------------------------------------------------

double us_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

Reading host_time(Rig& rig, const char* name, int at_once, bool wait, const char* method) {
  std::vector<double> samples;
  for (int n = -1; n < rig.launches(); ++n) {
    const auto begin = std::chrono::steady_clock::now();
    for (int k = 0; k < at_once; ++k) empty_launch(1);
    if (wait) check_cuda(cudaDeviceSynchronize(), "timing a launch");
    const double us = us_since(begin);
    check_cuda(cudaDeviceSynchronize(), "timing a launch");
    if (n >= 0) samples.push_back(us / at_once);
  }
  return summarise("launches", name, "µs", samples, method);
}

}  // namespace

void measure_barriers(Rig& rig) {
  for (int threads : {128, 256, 512, 1024}) {
    const TickSamples samples =
        rig.time_ctas(rig.sms(), [&](CtaTicks* ticks) { barriers<<<rig.sms(), threads>>>(ticks); });
    std::vector<double> ns;
    for (double clocks : samples.clocks) ns.push_back(1e3 * clocks / kBarriers / rig.mhz);
    Reading reading = summarise("barriers", "barrier of " + std::to_string(threads) + " threads", "ns", ns,
                                "barriers back to back, nothing between");
    if (threads == 256) reading.field = "barrier_ns";  // the CTA of a tiled kernel
    rig.add(reading);
  }
}

void measure_starts(Rig& rig) {
  constexpr int kManyCtas = 65536;
  const Reading start = cta_start(rig);
  rig.add(start);
  rig.check_cancelled();

  const TimingResult many = rig.time_cold([] { empty_launch(kManyCtas); });
  constexpr const char* kName = "empty CTAs, whole GPU";
  if (many.time_us.value)
    rig.add(summarise("launches", kName, "ns", {1e3 * *many.time_us.value / kManyCtas},
                      "time of a kernel of 65,536 empty CTAs of one warp, by CTAs, the median of its launches"));
  else
    rig.add(unmeasured("launches", kName, "ns", many.time_us.reason));

  rig.add(summarise("launches", "gap between kernels of one CTA", "µs", gaps_us(rig, 1),
                    "last instruction of a kernel to first instruction of the next in the stream"));
  const std::vector<double> gaps = gaps_us(rig, rig.sms());
  rig.add(summarise("launches", "gap between kernels on every SM", "µs", gaps,
                    "last instruction of any CTA to first instruction of any CTA of the next kernel"));
  std::vector<double> without_start;
  for (double us : gaps) without_start.push_back(std::max(us - *start.value.value / 1e3, 0.0));
  Reading gap = summarise("launches", "the same without the CTA start", "µs", without_start,
                          "gap between kernels on every SM, less the CTA start, which is a number of its own");
  gap.field = "launch_gap_us";
  rig.add(gap);
  rig.check_cancelled();

  rig.add(host_time(rig, "launch, on the host", 200, false, "host time of a call that queues an empty kernel, of 200"));
  rig.add(host_time(rig, "launch and wait", 1, true, "host time from the call until an empty kernel has ended"));
}

}  // namespace flashscope::kernels
