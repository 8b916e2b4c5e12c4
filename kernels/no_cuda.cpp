// The kernels room of a build without CUDA: the same functions, each with the reason it cannot run.
#include "kernels/common/device_memory.h"
#include "sim/error.h"

namespace flashscope::kernels {

std::unique_ptr<Device> open_device() {
  throw Error(
      ErrorKind::env,
      "this program was built without CUDA, so no kernel can run; simulating and replaying recordings work. To run "
      "kernels, build where nvcc is on PATH");
}

std::unique_ptr<Device> open_device(std::shared_ptr<DeviceMemory>) { return open_device(); }

}  // namespace flashscope::kernels
