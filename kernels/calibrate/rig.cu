#include "kernels/calibrate/rig.h"

#include <algorithm>

#include "kernels/measure/statistics.h"

namespace flashscope::kernels {
namespace {

constexpr int kWarmups = 3;

int attribute(cudaDeviceAttr name) {
  int device = 0, value = 0;
  check_cuda(cudaGetDevice(&device), "asking for the device");
  check_cuda(cudaDeviceGetAttribute(&value, name, device), "asking for an attribute of the GPU");
  return value;
}

class Event {
 public:
  Event() { check_cuda(cudaEventCreate(&m_event), "creating an event"); }
  ~Event() { cudaEventDestroy(m_event); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record() { check_cuda(cudaEventRecord(m_event), "recording an event"); }
  double us_since(const Event& start) const {
    float ms = 0;
    check_cuda(cudaEventElapsedTime(&ms, start.m_event, m_event), "reading an event");
    return 1e3 * ms;
  }

 private:
  cudaEvent_t m_event = nullptr;
};

}  // namespace

Rig::Rig(Bench& bench, const CalibrateOptions& options)
    : m_bench(bench),
      m_options(options),
      m_sms(attribute(cudaDevAttrMultiProcessorCount)),
      m_capability(10 * attribute(cudaDevAttrComputeCapabilityMajor) + attribute(cudaDevAttrComputeCapabilityMinor)),
      m_smem_per_cta(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)) {}

TimingResult Rig::time_cold(const std::function<void()>& launch) {
  TimingOptions options;
  options.launches = launches();
  options.warmup_us = 5000;
  options.progress = [this](double) { return check_cancelled(), true; };
  return m_bench.stopwatch().time({launch, nullptr}, options);
}

std::vector<double> Rig::time_warm(const std::function<void()>& launch) {
  for (int n = 0; n < kWarmups; ++n) launch();
  std::vector<Event> events(static_cast<std::size_t>(launches()) + 1);
  events.front().record();
  for (std::size_t n = 1; n < events.size(); ++n) {
    launch();
    events[n].record();
  }
  check_cuda(cudaGetLastError(), "launching a microbenchmark");
  check_cuda(cudaDeviceSynchronize(), "waiting for a microbenchmark");
  std::vector<double> us;
  for (std::size_t n = 1; n < events.size(); ++n) us.push_back(events[n].us_since(events[n - 1]));
  check_cancelled();
  return us;
}

TickSamples Rig::time_ctas(int ctas, const std::function<void(CtaTicks*)>& launch) {
  const DeviceBuffer buffer(ctas * static_cast<std::int64_t>(sizeof(CtaTicks)), "timing CTAs");
  auto* const on_gpu = static_cast<CtaTicks*>(static_cast<void*>(buffer.data()));
  std::vector<CtaTicks> ticks(static_cast<std::size_t>(ctas));
  TickSamples samples;
  for (int n = -kWarmups; n < launches(); ++n) {
    launch(on_gpu);
    check_cuda(cudaGetLastError(), "launching a microbenchmark");
    check_cuda(cudaMemcpy(ticks.data(), on_gpu, ticks.size() * sizeof(CtaTicks), cudaMemcpyDeviceToHost),
               "waiting for a microbenchmark");
    if (n < 0) continue;
    std::vector<double> clocks, mhz;
    for (const CtaTicks& t : ticks) {
      clocks.push_back(static_cast<double>(t.clocks));
      mhz.push_back(t.ns ? 1e3 * static_cast<double>(t.clocks) / static_cast<double>(t.ns) : 0);
    }
    samples.clocks.push_back(median(clocks));
    samples.mhz.push_back(median(mhz));
  }
  check_cancelled();
  return samples;
}

Reading Rig::bandwidth(std::string group, std::string name, double bytes, const TimingResult& time,
                       std::string method) {
  if (!time.time_us.value) return unmeasured(std::move(group), std::move(name), "GB/s", time.time_us.reason);
  const auto gb_per_s = [&](double us) { return us > 0 ? bytes / us / 1e3 : 0; };
  Reading reading;
  reading.group = std::move(group);
  reading.name = std::move(name);
  reading.unit = "GB/s";
  reading.value = Measured<double>::of(gb_per_s(*time.time_us.value));
  reading.p10 = gb_per_s(time.p90_us);  // the slowest launches are the lowest bandwidth
  reading.p90 = gb_per_s(time.p10_us);
  reading.samples = time.launches;
  reading.method = std::move(method);
  return reading;
}

void Rig::report(double share, const std::string& group) {
  m_share = share;
  m_group = group;
  check_cancelled();
}

void Rig::check_cancelled() {
  if (m_options.progress && !m_options.progress(m_share, m_group)) throw Error(ErrorKind::internal, "cancelled");
}

}  // namespace flashscope::kernels
