// What the driver says of the GPU: exact, nothing to measure.
#include "kernels/calibrate/rig.h"

namespace flashscope::kernels {
namespace {

struct Limit {
  cudaDeviceAttr attribute;
  const char* name;
  const char* unit;
  const char* field;
};

constexpr Limit kLimits[] = {
    {cudaDevAttrMultiProcessorCount, "multiprocessors", "SM", "num_sms"},
    {cudaDevAttrMaxRegistersPerMultiprocessor, "registers of an SM", "register", "registers_per_sm"},
    {cudaDevAttrMaxSharedMemoryPerMultiprocessor, "shared memory of an SM", "B", "smem_bytes_per_sm"},
    {cudaDevAttrMaxSharedMemoryPerBlockOptin, "shared memory of a CTA, opt-in", "B", "smem_bytes_per_cta"},
    {cudaDevAttrReservedSharedMemoryPerBlock, "shared memory reserved for a CTA", "B", "smem_bytes_reserved_per_cta"},
    {cudaDevAttrMaxThreadsPerMultiProcessor, "threads of an SM", "thread", "max_threads_per_sm"},
    {cudaDevAttrMaxBlocksPerMultiprocessor, "CTAs of an SM", "CTA", "max_ctas_per_sm"},
    {cudaDevAttrL2CacheSize, "L2", "B", "l2_bytes"},
};

void add_limit(Rig& rig, const char* name, const char* unit, double value, const char* field) {
  Reading reading = summarise("limits", name, unit, {value}, "device query");
  reading.samples = 0;
  reading.field = field;
  rig.add(reading);
}

}  // namespace

void measure_limits(Rig& rig) {
  int device = 0;
  check_cuda(cudaGetDevice(&device), "asking for the device");
  const auto ask = [device](cudaDeviceAttr attribute) {
    int value = 0;
    check_cuda(cudaDeviceGetAttribute(&value, attribute, device), "asking for a limit of the GPU");
    return static_cast<double>(value);
  };
  for (const Limit& limit : kLimits) add_limit(rig, limit.name, limit.unit, ask(limit.attribute), limit.field);
  std::size_t free_bytes = 0, all_bytes = 0;
  check_cuda(cudaMemGetInfo(&free_bytes, &all_bytes), "asking for the size of memory");
  add_limit(rig, "memory", "B", static_cast<double>(all_bytes), "hbm_bytes");
  // Two transfers a clock. A peak from clock and width: no kernel reaches it.
  const double khz = ask(cudaDevAttrMemoryClockRate), bits = ask(cudaDevAttrGlobalMemoryBusWidth);
  if (khz > 0 && bits > 0)
    add_limit(rig, "memory peak, 2 × clock × width", "GB/s", 2 * khz * 1e3 * bits / 8 / 1e9, "");
}

}  // namespace flashscope::kernels
