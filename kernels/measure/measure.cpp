#include "kernels/measure/measure.h"

#include <algorithm>
#include <string>

#include "sim/error.h"

namespace flashscope::kernels {
namespace {

// Shares of a row's progress: counting runs the call about as often as timing does, with more around it.
constexpr double kTimingShare = 0.4;

void report(const MeasureOptions& options, double share) {
  if (options.progress && !options.progress(share)) throw Error(ErrorKind::internal, "cancelled");
}

void set_unavailable(Measurement& row, const std::string& reason) {
  row.sm_read_bytes = row.sm_write_bytes = row.hbm_read_bytes = row.hbm_write_bytes = row.hbm_write_floor_bytes =
      row.hbm_background_read_bytes = row.hbm_background_write_bytes = Measured<std::int64_t>::unavailable(reason);
}

void count(Measurement& row, const Workload& workload, const OpenedCounters& opened) {
  if (!opened.counters) return set_unavailable(row, opened.reason);
  const CounterValues bytes = opened.counters->measure(workload, 1e-6 * row.time_us.value.value_or(0));
  row.sm_read_bytes = bytes.sm_read_bytes;
  row.sm_write_bytes = bytes.sm_write_bytes;
  row.hbm_read_bytes = bytes.hbm_read_bytes;
  row.hbm_write_bytes = bytes.hbm_write_bytes;
  row.hbm_write_floor_bytes = bytes.hbm_write_floor_bytes;
  row.hbm_background_read_bytes = bytes.hbm_background_read_bytes;
  row.hbm_background_write_bytes = bytes.hbm_background_write_bytes;
}

}  // namespace

std::vector<std::pair<std::string, Verification>> verifications(const Measurement& row, Pass pass) {
  std::vector<std::pair<std::string, Verification>> list = {{"O", row.o}, {"LSE", row.lse}};
  if (pass == Pass::backward) list.insert(list.end(), {{"dQ", row.d_q}, {"dK", row.d_k}, {"dV", row.d_v}});
  return list;
}

Measurement measure_launch(const Workload& workload, const MeasureOptions& options, Stopwatch& stopwatch,
                           const std::function<const OpenedCounters&()>& counters) {
  Measurement row;

  TimingOptions timing;
  timing.launches = std::max(options.launches, kMinLaunches);
  if (options.progress) timing.progress = [&](double share) { return options.progress(kTimingShare * share); };
  const TimingResult time = stopwatch.time(workload, timing);
  row.time_us = time.time_us;
  row.time_spread_us = time.p90_us - time.p10_us;
  row.launches = time.launches;
  row.sm_clock_mhz = time.sm_clock_mhz;
  report(options, kTimingShare);

  if (!options.counters)
    set_unavailable(row, "not asked for");
  else
    count(row, workload, counters());
  report(options, 1);
  return row;
}

}  // namespace flashscope::kernels
