// GPU memory that is host memory and counts what is alive: for what the kernels room does around its kernels.
#pragma once
#include <cstdlib>
#include <cstring>
#include <map>

#include "kernels/common/device_memory.h"

namespace flashscope::kernels {

class HostMemory final : public DeviceMemory {
 public:
  explicit HostMemory(std::int64_t capacity) : m_capacity(capacity) {}

  int fail_allocation = 0;  // the n-th from now on fails, counting from 1
  std::map<unsigned char*, std::int64_t> alive;

  void* allocate(std::int64_t bytes) override {
    if (fail_allocation > 0 && --fail_allocation == 0) return nullptr;
    if (bytes > free_bytes()) return nullptr;
    void* data = std::aligned_alloc(256, static_cast<std::size_t>(bytes));
    alive[static_cast<unsigned char*>(data)] = bytes;
    return data;
  }
  void release(void* data) noexcept override {
    alive.erase(static_cast<unsigned char*>(data));
    std::free(data);
  }
  std::int64_t free_bytes() override {
    std::int64_t used = 0;
    for (const auto& [data, bytes] : alive) used += bytes;
    return m_capacity - used;
  }
  void fill(void* target, int byte, std::int64_t bytes) override {
    std::memset(target, byte, static_cast<std::size_t>(bytes));
  }
  void copy_in(void* target, const void* host, std::int64_t bytes) override {
    std::memcpy(target, host, static_cast<std::size_t>(bytes));
  }
  void copy_out(void* host, const void* source, std::int64_t bytes) override {
    std::memcpy(host, source, static_cast<std::size_t>(bytes));
  }

 private:
  std::int64_t m_capacity;
};

}  // namespace flashscope::kernels
