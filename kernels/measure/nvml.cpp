#include "kernels/measure/nvml.h"

#include <dlfcn.h>

namespace flashscope::kernels {
namespace {

// From the NVML API reference: nvmlReturn_t and nvmlClockType_t.
constexpr int kSuccess = 0;
constexpr unsigned kClockSm = 1;
constexpr unsigned kClockMemory = 2;

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

Nvml::Nvml(const std::string& pci_bus_id) {
  // Never closed: other users of the library in this process may hold what it hands out.
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    m_reason = "the driver's libnvidia-ml.so.1 was not found";
    return;
  }
  int (*init)() = nullptr;
  int (*get_device)(const char*, void**) = nullptr;
  if (!find(library, "nvmlInit_v2", init) || !find(library, "nvmlDeviceGetHandleByPciBusId_v2", get_device) ||
      !find(library, "nvmlDeviceGetClockInfo", m_get_clock) ||
      !find(library, "nvmlSystemGetDriverVersion", m_get_driver_version)) {
    m_get_driver_version = nullptr;
    m_reason = "libnvidia-ml.so.1 is too old";
  } else if (init() != kSuccess) {
    m_get_driver_version = nullptr;
    m_reason = "NVML did not start";
  } else if (get_device(pci_bus_id.c_str(), &m_device) != kSuccess) {
    m_device = nullptr;
    m_reason = "NVML knows no GPU at " + pci_bus_id;
  }
}

Measured<double> Nvml::clock_mhz(unsigned domain) const {
  if (!m_device) return Measured<double>::unavailable(m_reason);
  unsigned mhz = 0;
  if (m_get_clock(m_device, domain, &mhz) != kSuccess || mhz == 0)
    return Measured<double>::unavailable("NVML did not say the clock");
  return Measured<double>::of(mhz);
}

Measured<double> Nvml::sm_clock_mhz() const { return clock_mhz(kClockSm); }
Measured<double> Nvml::memory_clock_mhz() const { return clock_mhz(kClockMemory); }

Measured<std::string> Nvml::driver_version() const {
  char text[80] = "";  // NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE
  if (!m_get_driver_version || m_get_driver_version(text, sizeof text) != kSuccess)
    return Measured<std::string>::unavailable(m_reason.empty() ? "NVML did not say the driver's version" : m_reason);
  return Measured<std::string>::of(text);
}

}  // namespace flashscope::kernels
