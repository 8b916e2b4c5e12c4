#include "kernels/measure/stopwatch.h"

#include <algorithm>
#include <chrono>

#include "kernels/measure/cuda_check.h"
#include "kernels/measure/streams.h"

namespace flashscope::kernels {
namespace {

class CudaEvent {
 public:
  CudaEvent() { check_cuda(cudaEventCreate(&m_event), "creating an event"); }
  ~CudaEvent() { cudaEventDestroy(m_event); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  void record() { check_cuda(cudaEventRecord(m_event), "recording an event"); }
  void wait() { check_cuda(cudaEventSynchronize(m_event), "waiting for the launch"); }
  double us_since(const CudaEvent& start) const {
    float ms = 0;
    check_cuda(cudaEventElapsedTime(&ms, start.m_event, m_event), "reading an event");
    return 1e3 * ms;
  }

 private:
  cudaEvent_t m_event = nullptr;
};

class GpuStopwatch : public Stopwatch {
 public:
  GpuStopwatch(L2Cleaner& cleaner, const Nvml& nvml) : m_cleaner(cleaner), m_nvml(nvml) {}

  TimingResult time(const Workload& workload, const TimingOptions& options) override {
    const Workload empty{[] { empty_launch(1); }, nullptr};
    const int launches = std::max(options.launches, kMinLaunches);

    warm_up(workload, options);
    m_clocks_mhz.clear();
    std::vector<double> empty_us, launch_us;
    for (int i = 0; i < kMinLaunches; ++i) empty_us.push_back(time_once(empty));
    m_clocks_mhz.clear();  // only readings under the row's own load count
    for (int i = 0; i < launches; ++i) {
      launch_us.push_back(time_once(workload));
      report(options, static_cast<double>(i + 1) / launches);
    }
    return summarise_times(launch_us, empty_us, m_clocks_mhz, m_why_no_clock);
  }

 private:
  static void report(const TimingOptions& options, double share) {
    if (options.progress && !options.progress(share)) throw Error(ErrorKind::internal, "cancelled");
  }

  void warm_up(const Workload& workload, const TimingOptions& options) {
    const auto begin = std::chrono::steady_clock::now();
    const auto passed_us = [&] {
      return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
    };
    for (int i = 0; i < options.warmup_launches || passed_us() < options.warmup_us; ++i) {
      time_once(workload);
      report(options, 0);
    }
  }

  // The cleaning runs before the first event and takes longer than the host needs to queue what follows, so the launch
  // waits in the queue when the first event passes and no host time gets between the events.
  double time_once(const Workload& workload) {
    workload.prepare();
    m_cleaner.evict();
    m_start.record();
    workload.launch();
    m_stop.record();
    // Read while the GPU works: afterwards the clock may already fall.
    const Measured<double> clock = m_nvml.sm_clock_mhz();
    if (clock.value)
      m_clocks_mhz.push_back(*clock.value);
    else
      m_why_no_clock = clock.reason;
    m_stop.wait();
    check_cuda(cudaGetLastError(), "timing a launch");
    return m_stop.us_since(m_start);
  }

  L2Cleaner& m_cleaner;
  const Nvml& m_nvml;
  CudaEvent m_start, m_stop;
  std::vector<double> m_clocks_mhz;
  std::string m_why_no_clock;
};

}  // namespace

std::unique_ptr<Stopwatch> make_stopwatch(L2Cleaner& cleaner, const Nvml& nvml) {
  return std::make_unique<GpuStopwatch>(cleaner, nvml);
}

}  // namespace flashscope::kernels
