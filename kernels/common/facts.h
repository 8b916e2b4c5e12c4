// What the compiler and the device say of a built kernel. Only where CUDA is.
#pragma once
#include <cstdint>

#include "sim/schedule/schedule.h"

namespace flashscope::kernels {

struct KernelFacts {
  int registers_per_thread = 0;
  std::int64_t local_bytes_per_thread = 0;  // above 0: registers were spilled
  int ctas_per_sm = 0;
};

/// For the device that is current. Throws Error(unsupported) when the kernel is not built for the schedule's problem.
KernelFacts kernel_facts(const Schedule& schedule, int kernel);

}  // namespace flashscope::kernels
