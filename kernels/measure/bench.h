// What a device needs to be measured, made once: buffers, clock reader, stopwatch and, when first asked for, counters.
#pragma once
#include <memory>
#include <string>

#include "kernels/kernels.h"
#include "kernels/measure/counters.h"
#include "kernels/measure/l2_cleaner.h"
#include "kernels/measure/nvml.h"
#include "kernels/measure/timing.h"

namespace flashscope::kernels {

/// For the CUDA device that is current when it is made and whenever it is used. One thread at a time.
class Bench {
 public:
  /// Throws Error(resource) when its buffers (six times the L2) do not fit.
  Bench();

  /// Everything of a row but its verification. See measure.h.
  Measurement measure(const Workload& workload, const MeasureOptions& options);

  /// Opened, with the self-test, on the first call; `counters` is null with a reason where there are none.
  const OpenedCounters& counters();

  const Nvml& nvml() const { return m_nvml; }
  Stopwatch& stopwatch() { return *m_stopwatch; }
  L2Cleaner& cleaner() { return m_cleaner; }

 private:
  Nvml m_nvml;
  L2Cleaner m_cleaner;
  std::unique_ptr<Stopwatch> m_stopwatch;
  OpenedCounters m_counters;
  bool m_opened = false;
};

/// "0000:1b:00.0" of the current device.
std::string current_pci_bus_id();

}  // namespace flashscope::kernels
