#include "kernels/measure/l2_cleaner.h"

#include "kernels/measure/cuda_check.h"
#include "kernels/measure/streams.h"

namespace flashscope::kernels {

L2Cleaner::L2Cleaner() {
  int device = 0, l2_bytes = 0;
  check_cuda(cudaGetDevice(&device), "asking for the device");
  check_cuda(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, device), "asking for the size of L2");
  if (l2_bytes <= 0)
    throw Error(ErrorKind::unsupported, "this GPU reports no L2 cache: the measuring protocol needs its size");
  m_l2_bytes = l2_bytes;
  // Twice the size: replacement is not strictly oldest first, so one size would leave lines behind.
  const std::int64_t bytes = 2 * (m_l2_bytes + 255) / 256 * 256;
  for (auto* buffer : {&m_written, &m_read, &m_swept}) {
    *buffer = std::make_unique<DeviceBuffer>(bytes, "cleaning L2");
    // Pages that nobody wrote may be served without HBM.
    stream_write((*buffer)->data(), bytes, 1);
  }
  evict();
  check_cuda(cudaDeviceSynchronize(), "cleaning L2");
}

L2Cleaner::~L2Cleaner() = default;

void L2Cleaner::evict() {
  stream_write(m_written->data(), m_written->bytes(), ++m_round);
  stream_read(m_read->data(), m_read->bytes());
}

void L2Cleaner::sweep() { stream_read(m_swept->data(), m_swept->bytes()); }

}  // namespace flashscope::kernels
