// The microbenchmarks of this folder, one after the other.
#pragma once
#include "kernels/calibrate/calibration.h"
#include "kernels/measure/bench.h"

namespace flashscope::kernels {

/// On the current device. A number that cannot be measured is there with its reason. Throws Error when the device is
/// lost or the caller cancels.
Calibration run_microbenchmarks(Bench& bench, const CalibrateOptions& options);

}  // namespace flashscope::kernels
