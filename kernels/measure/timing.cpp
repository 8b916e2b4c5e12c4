#include "kernels/measure/timing.h"

#include "kernels/measure/statistics.h"

namespace flashscope::kernels {

TimingResult summarise_times(const std::vector<double>& launch_us, const std::vector<double>& empty_us,
                             const std::vector<double>& clocks_mhz, const std::string& why_no_clock) {
  TimingResult result;
  result.launches = static_cast<int>(launch_us.size());
  result.empty_kernel_us = median(empty_us);
  result.p10_us = percentile(launch_us, 0.1) - result.empty_kernel_us;
  result.p90_us = percentile(launch_us, 0.9) - result.empty_kernel_us;
  const double time_us = median(launch_us) - result.empty_kernel_us;
  result.time_us = time_us > 0 ? Measured<double>::of(time_us)
                               : Measured<double>::unavailable("too short: not longer than an empty kernel");
  result.sm_clock_mhz =
      clocks_mhz.empty() ? Measured<double>::unavailable(why_no_clock) : Measured<double>::of(median(clocks_mhz));
  return result;
}

}  // namespace flashscope::kernels
