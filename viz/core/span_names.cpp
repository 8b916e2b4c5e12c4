#include "viz/core/span_names.h"

#include <algorithm>
#include <cstdio>

#include "sim/schedule/hopper_rungs.h"

namespace flashscope::viz {

std::vector<std::string> span_names(const std::string& doing) {
  std::vector<std::string> names = {doing};
  for (const char* tail : {" from ", " = "})
    if (const std::size_t at = names.back().find(tail); at != std::string::npos && at > 0)
      names.push_back(names.back().substr(0, at));
  for (const std::string verb : {"load ", "store "})
    if (names.back().rfind(verb, 0) == 0) names.push_back(names.back().substr(verb.size()));
  return names;
}

std::string title_of(Reason reason) {
  switch (reason) {
    case Reason::hbm: return "HBM";
    case Reason::l2: return "L2";
    case Reason::smem: return "SMEM";
    case Reason::fma: return "FMA";
    default: return name_of(reason);
  }
}

int folded_warpgroups(const KernelLaunch& launch) {
  if (launch.matrix_unit != MatrixUnit::wgmma) return 1;
  return std::max(1, (launch.resources.threads - launch.loading_threads) / kWarpgroupThreads);
}

int folded_warpgroups(const Schedule& schedule) {
  int most = 1;
  for (const KernelLaunch& launch : schedule.kernels()) most = std::max(most, folded_warpgroups(launch));
  return most;
}

std::string clock_text(double t_us, double duration_us) {
  const double unit = duration_us < 999.5 ? 1 : duration_us < 999.5e3 ? 1e3 : 1e6;
  char text[96];
  std::snprintf(text, sizeof text, "%.3f of %.3f %s", t_us / unit, duration_us / unit,
                unit < 2     ? "µs"
                : unit < 2e3 ? "ms"
                             : "s");
  return text;
}

}  // namespace flashscope::viz
