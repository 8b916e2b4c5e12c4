#include "viz/core/comparison.h"

#include <cmath>
#include <cstdio>
#include <utility>

#include "viz/core/text.h"
#include "viz/core/validated_row.h"

namespace flashscope::viz {
namespace {

using kernels::Measured;

Measured<double> as_double(const Measured<std::int64_t>& m) {
  return m.value ? Measured<double>::of(static_cast<double>(*m.value)) : Measured<double>::unavailable(m.reason);
}

template <class T, class F>
Measured<double> from(const Measured<T>& whole, F part) {
  return whole.value ? Measured<double>::of(static_cast<double>(part(*whole.value)))
                     : Measured<double>::unavailable(whole.reason);
}

}  // namespace

std::optional<double> ComparisonRow::ratio() const {
  if (!predicted.value || !measured.value || *measured.value == 0) return std::nullopt;
  return *predicted.value / *measured.value;
}

std::string ComparisonRow::error_text() const {
  const std::optional<double> predicted_over_measured = ratio();
  if (!predicted_over_measured) return "";
  char buffer[32];
  const double percent = (*predicted_over_measured - 1) * 100;
  if (std::fabs(percent) < 0.05) return "0.0 %";  // and not -0.0 %
  std::snprintf(buffer, sizeof buffer, "%+.1f %%", percent);
  return buffer;
}

std::string ComparisonRow::value_text(double value) const {
  return kind == Kind::time ? time_text(value) : size_text(value);
}

const RecordingRow* recorded_row(const Settings& settings, const std::string& algorithm,
                                 const std::vector<Recording>& recordings) {
  for (const Recording& recording : recordings)
    if (recording.machine == settings.gpu)
      if (const RecordingRow* row = find_row(recording, settings.problem, algorithm, settings.tile, settings.start))
        return row;
  return nullptr;
}

std::optional<double> time_us_at_clock_of(const RecordingRow* row, const Schedule& schedule, const Machine& machine,
                                          const RunOptions& options, const Prediction& prediction) {
  if (!row || !row->measured.sm_clock_mhz.value) return std::nullopt;
  const Machine clocked = at_measured_clock(machine, row->measured);
  if (clocked.sm_clock_mhz.value == machine.sm_clock_mhz.value) return prediction.time_us();
  return simulate(schedule, clocked, options).time_us();
}

Comparison compare(const Settings& settings, const std::string& algorithm, const WholeRun& run,
                   const std::vector<Recording>& recordings) {
  Comparison table;
  table.algorithm = algorithm;
  const RecordingRow* row = nullptr;
  std::string reason = "no recording of " + settings.gpu + " is shipped";
  table.measured_from = reason;
  for (const Recording& recording : recordings) {
    if (recording.machine != settings.gpu) continue;
    row = find_row(recording, settings.problem, algorithm, settings.tile, settings.start);
    reason = "not in the recording of " + recording.gpu;
    table.measured_from = row && recording.date.empty() ? "measured on " + recording.gpu + ", just now"
                          : row                         ? "recorded on " + recording.gpu + ", " + recording.date
                                                        : "unavailable: " + reason;
    if (row) break;
  }
  table.has_measurement = row != nullptr;

  const auto missing = Measured<double>::unavailable(reason);
  const auto not_counted = Measured<double>::unavailable("a formula: no hardware counter counts it");
  const auto measured = [&](auto member) { return row ? as_double(row->measured.*member) : missing; };
  const auto bytes = [](std::int64_t value) { return Measured<double>::of(static_cast<double>(value)); };
  using M = kernels::Measurement;
  using Kind = ComparisonRow::Kind;
  table.rows = {
      {"SM read", Kind::bytes, from(run.count, [](const KernelCount& c) { return c.sm.sector_read; }),
       measured(&M::sm_read_bytes), "from L2 to the SMs, in whole 32-byte sectors"},
      {"SM write", Kind::bytes, from(run.count, [](const KernelCount& c) { return c.sm.sector_write; }),
       measured(&M::sm_write_bytes), "from the SMs to L2, in whole 32-byte sectors"},
      {"HBM read", Kind::bytes, from(run.prediction, [](const Prediction& p) { return p.hbm.read; }),
       measured(&M::hbm_read_bytes), "what L2 did not hold"},
      {"HBM write", Kind::bytes,
       from(run.prediction, [](const Prediction& p) { return p.hbm.write + p.hbm_dirty_bytes; }),
       measured(&M::hbm_write_bytes), "written back, the dirty lines left in L2 at the end included"},
      {"paper's count", Kind::bytes, bytes(run.closed_form.paper_bytes), not_counted,
       "the FlashAttention paper's two-level count, without L2"},
      {"compulsory", Kind::bytes, bytes(run.compulsory_bytes), not_counted,
       "Q, K, V once and O once: no algorithm moves less"},
      {"time", Kind::time,
       run.time_us_at_recorded_clock ? Measured<double>::of(*run.time_us_at_recorded_clock)
                                     : from(run.prediction, [](const Prediction& p) { return p.time_us(); }),
       row ? row->measured.time_us : missing,
       std::string("first CTA start to last CTA end, with the gaps between kernels") +
           (run.time_us_at_recorded_clock ? "; predicted at the SM clock of the recording" : "")},
  };
  for (ComparisonRow& r : table.rows)
    if (r.kind == Kind::bytes && r.measured.value && *r.measured.value < kCounterResolution)
      r.note += "; below counter resolution (2 MiB)";
  return table;
}

}  // namespace flashscope::viz
