// How long one call takes: CUDA events around a call with a cold L2, less what an empty kernel takes
// (docs/measuring.md).
#pragma once
#include <functional>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/measure/workload.h"

namespace flashscope::kernels {

/// The protocol's least number of timed launches; a smaller request is raised to it.
inline constexpr int kMinLaunches = 20;

struct TimingOptions {
  int launches = kMinLaunches;
  int warmup_launches = 5;
  double warmup_us = 20000;  // and at least this long, so that the clock has risen before the first timed launch
  /// Called after each launch with the share done; returning false cancels with Error(internal, "cancelled").
  std::function<bool(double)> progress;
};

struct TimingResult {
  Measured<double> time_us;       // median, the empty kernel subtracted
  double p10_us = 0, p90_us = 0;  // likewise
  double empty_kernel_us = 0;     // median of an empty kernel measured in the same way, just before
  int launches = 0;
  Measured<double> sm_clock_mhz;  // median of the readings taken while launches of this row were running
};

/// The raw samples of a row made into its result. Unavailable when the median is not above that of the empty kernel:
/// the call is then too short for events to see.
TimingResult summarise_times(const std::vector<double>& launch_us, const std::vector<double>& empty_us,
                             const std::vector<double>& clocks_mhz, const std::string& why_no_clock);

/// The seam: the GPU's stopwatch is in stopwatch.cu, a test has its own.
class Stopwatch {
 public:
  virtual ~Stopwatch() = default;
  /// Throws Error when a launch fails or the caller cancels.
  virtual TimingResult time(const Workload& workload, const TimingOptions& options) = 0;
};

}  // namespace flashscope::kernels
