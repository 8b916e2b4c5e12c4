#include "kernels/measure/bench.h"

#include <algorithm>

#include "kernels/measure/cuda_check.h"
#include "kernels/measure/idle.h"
#include "kernels/measure/measure.h"
#include "kernels/measure/stopwatch.h"
#include "kernels/measure/streams.h"

namespace flashscope::kernels {
namespace {

constexpr std::int64_t kSelfTestBytes = std::int64_t{1} << 30;

// 1 GiB where that leaves half of the free memory alone; never so little that the profiler's own bytes (some 20 KB)
// come near the 1 % that the self-test allows.
std::int64_t self_test_bytes() {
  std::size_t free_bytes = 0, all_bytes = 0;
  check_cuda(cudaMemGetInfo(&free_bytes, &all_bytes), "asking for free memory");
  const auto quarter = static_cast<std::int64_t>(free_bytes / 4 / 256 * 256);
  return std::max(std::min(kSelfTestBytes, quarter), 8 * kCounterResolutionBytes);
}

constexpr double kIdleSeconds = 0.2;  // an H200 writes 256 KiB every 14 ms of its own accord

}  // namespace

std::string current_pci_bus_id() {
  int device = 0;
  char text[32] = "";
  check_cuda(cudaGetDevice(&device), "asking for the device");
  check_cuda(cudaDeviceGetPCIBusId(text, sizeof text, device), "asking for the device's PCI address");
  return text;
}

Bench::Bench() : m_nvml(current_pci_bus_id()), m_stopwatch(make_stopwatch(m_cleaner, m_nvml)) {}

const OpenedCounters& Bench::counters() {
  if (m_opened) return m_counters;
  try {
    // The two buffers of the self-test live only as long as it does; afterwards nobody calls read and copy.
    const std::int64_t bytes = self_test_bytes();
    const DeviceBuffer source(bytes, "the self-test of the counters"), target(bytes, "the self-test of the counters");
    stream_write(source.data(), bytes, 7);
    MemoryWork work;
    work.evict = [this] { m_cleaner.evict(); };
    work.sweep = [this] { m_cleaner.sweep(); };
    work.read = [&] { stream_read(source.data(), bytes); };
    work.copy = [&] { stream_copy(target.data(), source.data(), bytes); };
    work.test_bytes = bytes;
    work.idle_seconds = kIdleSeconds;
    work.idle = [] { idle(kIdleSeconds); };
    m_counters = Counters::open(open_cupti, std::move(work));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::resource) throw;
    m_counters.reason = error.what();
  }
  m_opened = true;
  return m_counters;
}

Measurement Bench::measure(const Workload& workload, const MeasureOptions& options) {
  return measure_launch(workload, options, *m_stopwatch, [this]() -> const OpenedCounters& { return counters(); });
}

}  // namespace flashscope::kernels
