// What can run where, in words. No CUDA: everything here is tested without a GPU.
#pragma once
#include <string>

#include "kernels/kernels.h"

namespace flashscope::kernels {

/// "" when a rung exists for this schedule and fits the device, else why not and what can.
std::string why_unsupported(const Schedule& schedule, const DeviceInfo& device);

/// What the CUDA runtime said when it was asked for devices.
struct DeviceSearch {
  enum Outcome { found, insufficient_driver, no_device, other } outcome = found;
  int devices = 0;
  int driver_version = 0;   // as cudaDriverGetVersion: 13000 for 13.0; 0 without a driver
  int runtime_version = 0;  // what this build needs
  std::string error;        // CUDA's words, for `other`
};
/// "" when a GPU was found, else the text for a person: no driver, driver too old, no device are three different ones.
std::string why_no_gpu(const DeviceSearch& search);

/// "13.0" for 13000.
std::string cuda_version_text(int version);

}  // namespace flashscope::kernels
