// The GPU's stopwatch: CUDA events on the default stream, with a cold, clean L2 before each launch.
#pragma once
#include <memory>

#include "kernels/measure/l2_cleaner.h"
#include "kernels/measure/nvml.h"
#include "kernels/measure/timing.h"

namespace flashscope::kernels {

/// Both must outlive the stopwatch.
std::unique_ptr<Stopwatch> make_stopwatch(L2Cleaner& cleaner, const Nvml& nvml);

}  // namespace flashscope::kernels
