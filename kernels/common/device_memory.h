// Memory of the GPU behind a seam: CUDA's in the product; in a test, one that fails when it is told to, or plain host
// memory.
#pragma once
#include <cstdint>
#include <memory>

#include "kernels/kernels.h"

namespace flashscope::kernels {

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  /// nullptr when there is not enough. Addresses are multiples of 256 bytes.
  virtual void* allocate(std::int64_t bytes) = 0;
  virtual void release(void* data) noexcept = 0;
  virtual std::int64_t free_bytes() = 0;

  virtual void fill(void* target, int byte, std::int64_t bytes) = 0;
  virtual void copy_in(void* target, const void* host, std::int64_t bytes) = 0;
  virtual void copy_out(void* host, const void* source, std::int64_t bytes) = 0;
};

/// The GPU of this machine with the given memory: what open_device() does with CUDA's. Throws like it.
std::unique_ptr<Device> open_device(std::shared_ptr<DeviceMemory> memory);

}  // namespace flashscope::kernels
