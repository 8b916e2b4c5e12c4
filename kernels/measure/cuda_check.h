// CUDA's error codes as our one error type. For .cu files only.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "sim/error.h"

namespace flashscope::kernels {

/// `what` names the step for the person who reads the text: "timing a launch".
inline void check_cuda(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  ErrorKind kind = ErrorKind::internal;
  if (code == cudaErrorMemoryAllocation) kind = ErrorKind::resource;
  if (code == cudaErrorNoDevice || code == cudaErrorInsufficientDriver || code == cudaErrorDevicesUnavailable)
    kind = ErrorKind::env;
  throw Error(kind, std::string(what) + ": " + cudaGetErrorString(code) + " (" + cudaGetErrorName(code) + ")");
}

/// Device memory, freed at the end of its scope.
class DeviceBuffer {
 public:
  DeviceBuffer(std::int64_t bytes, const char* what) : m_bytes(bytes) {
    const cudaError_t code = cudaMalloc(&m_data, static_cast<std::size_t>(bytes));
    if (code == cudaSuccess) return;
    cudaGetLastError();  // a failed allocation leaves the device usable: do not let the next check see it
    check_cuda(code, (std::string(what) + " needs " + std::to_string(bytes) + " B on the GPU").c_str());
  }
  ~DeviceBuffer() { cudaFree(m_data); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  char* data() const { return static_cast<char*>(m_data); }
  std::int64_t bytes() const { return m_bytes; }

 private:
  void* m_data = nullptr;
  std::int64_t m_bytes = 0;
};

}  // namespace flashscope::kernels
