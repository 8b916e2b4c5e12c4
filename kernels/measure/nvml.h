// What the driver's management library (NVML) says of a GPU. It is opened at run time and declared here by hand, so
// that building needs no header and starting needs no driver. Source: NVML API reference, device queries.
#pragma once
#include <string>

#include "kernels/kernels.h"

namespace flashscope::kernels {

class Nvml {
 public:
  /// pci_bus_id: as cudaDeviceGetPCIBusId gives it, "0000:1b:00.0". Never throws: what is missing is said by the
  /// answers.
  explicit Nvml(const std::string& pci_bus_id);

  Measured<double> sm_clock_mhz() const;
  Measured<double> memory_clock_mhz() const;
  Measured<std::string> driver_version() const;

 private:
  Measured<double> clock_mhz(unsigned domain) const;

  std::string m_reason;  // why there is no device, or ""
  void* m_device = nullptr;
  int (*m_get_clock)(void*, unsigned, unsigned*) = nullptr;
  int (*m_get_driver_version)(char*, unsigned) = nullptr;
};

}  // namespace flashscope::kernels
