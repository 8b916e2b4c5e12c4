// What the microbenchmarks share: the GPU's shape, how a sample is taken, and the growing list of readings. For .cu
// files only.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/calibrate/calibration.h"
#include "kernels/measure/bench.h"
#include "kernels/measure/cuda_check.h"

namespace flashscope::kernels {

/// What a CTA noted about itself with CtaWatch.
struct CtaTicks {
  long long clocks;        // of its SM
  unsigned long long ns;   // of the GPU's global timer, in steps of 32 ns to 1 µs
};

/// In a kernel: start() and stop() around the work, by all threads of the CTA. Both wait for all of them, so the work
/// between is the whole CTA's.
struct CtaWatch {
  long long clocks;
  unsigned long long ns;
#ifdef __CUDACC__
  static __device__ unsigned long long global_ns() {
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
    return now;
  }
  __device__ void start() {
    __syncthreads();
    ns = global_ns();
    clocks = clock64();
  }
  __device__ void stop(CtaTicks* ticks) {
    __syncthreads();
    const long long now = clock64();
    if (threadIdx.x == 0) ticks[blockIdx.x] = {now - clocks, global_ns() - ns};
  }
#endif
};

/// Samples of one kernel of one CTA an SM: a launch gives the median over its CTAs.
struct TickSamples {
  std::vector<double> clocks, mhz;
};

class Rig {
 public:
  Rig(Bench& bench, const CalibrateOptions& options);

  int sms() const { return m_sms; }
  int capability() const { return m_capability; }  // 90 for 9.0
  int smem_per_cta() const { return m_smem_per_cta; }
  std::int64_t l2_bytes() const { return m_bench.cleaner().l2_bytes(); }
  int launches() const { return m_options.launches; }
  bool counting() const { return m_options.counters; }
  Bench& bench() { return m_bench; }
  /// Clock of the SMs at work, measured first; latencies in clocks become nanoseconds with it.
  double mhz = 0;

  /// A cold L2 before each launch, an empty kernel subtracted: the protocol of a recording (docs/measuring.md).
  TimingResult time_cold(const std::function<void()>& launch);
  /// Back to back, L2 as the launch before left it. Microseconds by events, launch gap in them: for long kernels.
  std::vector<double> time_warm(const std::function<void()>& launch);
  /// `launch` must write the ticks of `ctas` CTAs.
  TickSamples time_ctas(int ctas, const std::function<void(CtaTicks*)>& launch);

  /// Gigabytes a second from a cold timing.
  Reading bandwidth(std::string group, std::string name, double bytes, const TimingResult& time, std::string method);

  void add(Reading reading) { readings.push_back(std::move(reading)); }
  /// Between two steps: throws Error(internal, "cancelled") when the caller wants no more.
  void check_cancelled();
  void report(double share, const std::string& group);

  std::vector<Reading> readings;

 private:
  Bench& m_bench;
  const CalibrateOptions& m_options;
  int m_sms = 0, m_capability = 0, m_smem_per_cta = 0;
  double m_share = 0;
  std::string m_group;
};

// The groups of microbenchmarks, in the order in which they run.
void measure_limits(Rig& rig);         // limits.cu         what the driver says
void measure_arithmetic(Rig& rig);     // arithmetic.cu     FMA, integers, exponentials; the SM clock under FMA load
void measure_shared_memory(Rig& rig);  // shared_memory.cu  bandwidth and latency on chip
void measure_mma(Rig& rig);            // mma.cu            tensor cores by warp instructions
void measure_wgmma(Rig& rig);          // wgmma.cu          tensor cores by warpgroup instructions (Hopper)
void measure_barriers(Rig& rig);       // starts.cu         barriers
void measure_starts(Rig& rig);         // starts.cu         CTA start, launches, gaps
void measure_latency(Rig& rig);        // latency.cu        L2 near and far, HBM
void measure_l2(Rig& rig);             // l2.cu             L2 bandwidth, one SM's port, capacity
void measure_hbm(Rig& rig);            // hbm.cu            read, write, mixed

}  // namespace flashscope::kernels
