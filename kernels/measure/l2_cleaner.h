// Puts L2 into a known state: nothing of the problem in it, and nothing dirty.
#pragma once
#include <cstdint>
#include <memory>

namespace flashscope::kernels {

class DeviceBuffer;

/// Three buffers of twice the L2 each, allocated once. Everything runs on the default stream and is not waited for.
class L2Cleaner {
 public:
  /// Of the current device, whose L2 size it asks for. Throws Error(resource) when the buffers do not fit.
  L2Cleaner();
  ~L2Cleaner();

  /// Writes one buffer, which pushes out every line of the problem, then reads a second, which pushes out the dirty
  /// lines of the first.
  void evict();

  /// Reads a third, clean buffer, so dirty lines of whatever ran before reach HBM. It is not the one that evict()
  /// reads: lines of that one still lie in L2, and reading them again would push nothing out.
  void sweep();

  std::int64_t l2_bytes() const { return m_l2_bytes; }

 private:
  std::int64_t m_l2_bytes = 0;
  std::uint32_t m_round = 0;
  std::unique_ptr<DeviceBuffer> m_written, m_read, m_swept;
};

}  // namespace flashscope::kernels
