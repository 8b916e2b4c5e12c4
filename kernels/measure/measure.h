// One row of a recording, but for the verification: the time first, then the bytes.
#pragma once
#include <functional>

#include "kernels/kernels.h"
#include "kernels/measure/counters.h"
#include "kernels/measure/timing.h"
#include "kernels/measure/workload.h"

namespace flashscope::kernels {

/// counters: asked for only after the timing and when options.counters is set; where they are unavailable, their reason
/// stands in the row and the time stays valid. Fills all of Measurement except o and lse. Calls options.progress with
/// the share of the row; throws Error(internal, "cancelled") when it says no.
Measurement measure_launch(const Workload& workload, const MeasureOptions& options, Stopwatch& stopwatch,
                           const std::function<const OpenedCounters&()>& counters);

}  // namespace flashscope::kernels
