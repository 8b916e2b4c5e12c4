#include "kernels/calibrate/calibrate.h"

#include <iterator>

#include "kernels/calibrate/rig.h"

namespace flashscope::kernels {
namespace {

struct Group {
  const char* name;
  void (*measure)(Rig&);
};

// The clock first: it makes nanoseconds of clocks. Bandwidth last: its counters slow down what comes after them.
constexpr Group kGroups[] = {
    {"limits", measure_limits},       {"arithmetic and clock", measure_arithmetic},
    {"shared memory", measure_shared_memory}, {"mma.sync", measure_mma},
    {"wgmma", measure_wgmma},         {"barriers", measure_barriers},
    {"launches", measure_starts},     {"latencies", measure_latency},
    {"HBM bandwidth", measure_hbm},   {"L2 bandwidth and capacity", measure_l2},
};

}  // namespace

Calibration run_microbenchmarks(Bench& bench, const CalibrateOptions& options) {
  Rig rig(bench, options);
  for (std::size_t n = 0; n < std::size(kGroups); ++n) {
    rig.report(static_cast<double>(n) / std::size(kGroups), kGroups[n].name);
    try {
      kGroups[n].measure(rig);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::resource) throw;
      rig.add(unmeasured(kGroups[n].name, "all", "", error.what()));  // its buffers do not fit; the others may
    }
  }
  return {std::move(rig.readings)};
}

}  // namespace flashscope::kernels
