#include "viz/core/validation.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <numeric>

#include "sim/schedule/algorithms.h"
#include "viz/core/comparison.h"
#include "viz/core/text.h"
#include "viz/io/json_numbers.h"

namespace flashscope::viz {
namespace {

constexpr double kShortUs = 10, kShortAllowanceUs = 1.5;

ValidatedValue bytes(std::int64_t predicted, const kernels::Measured<std::int64_t>& measured) {
  ValidatedValue value;
  value.predicted = static_cast<double>(predicted);
  value.measured = measured.value ? kernels::Measured<double>::of(static_cast<double>(*measured.value))
                                  : kernels::Measured<double>::unavailable(measured.reason);
  value.resolved = !measured.value || std::max(value.predicted, *value.measured.value) >= kCounterResolutionBytes;
  return value;
}

ValidatedRow validated(const RecordingRow& recorded, Machine machine, const std::function<bool()>& wanted) {
  ValidatedRow row;
  row.algorithm = recorded.algorithm;
  row.problem = describe(recorded.problem);
  const kernels::Measurement& m = recorded.measured;
  if (m.sm_clock_mhz.value) machine.sm_clock_mhz.value = *m.sm_clock_mhz.value;
  try {
    const auto schedule = make_schedule(recorded.algorithm, recorded.problem, recorded.tile);
    RunOptions options;
    options.start = recorded.start;
    options.progress = [&](double) { return wanted(); };
    const Prediction p = simulate(*schedule, machine, options);
    ValidatedValue time{p.time_us(), m.time_us, true};
    if (m.time_us.value && *m.time_us.value < kShortUs)
      time.resolved = std::fabs(p.time_us() - *m.time_us.value) > kShortAllowanceUs;
    row.values = {time, bytes(p.count.sm.sector_read, m.sm_read_bytes),
                  bytes(p.count.sm.sector_write, m.sm_write_bytes), bytes(p.hbm.read, m.hbm_read_bytes),
                  bytes(p.hbm.write + p.hbm_dirty_bytes, m.hbm_write_bytes)};
  } catch (const std::exception& error) {
    row.refusal = error.what();
  }
  return row;
}

/// Score tiles: what the time of a simulation grows with.
double effort(const RecordingRow& row) {
  const AttentionProblem& p = row.problem;
  return static_cast<double>(p.num_heads()) * num_tiles(p.seqlen_q, row.tile.br) * num_tiles(p.seqlen_k, row.tile.bc);
}

class ValidationJob final : public SlicedJob<Validation> {
 public:
  ValidationJob(const ValidateRequest& request, const std::vector<Machine>& machines,
                const std::vector<Recording>& recordings) {
    m_validation.machine = request.machine;
    m_validation.origin = "no recording of " + request.machine + " is shipped";
    for (const Machine& machine : machines)
      if (machine.name == request.machine) m_machine = &machine;
    for (const Recording& recording : recordings)
      if (!m_recording && recording.machine == request.machine) m_recording = &recording;
    if (!m_machine || !m_recording) return;
    m_validation.origin =
        "recorded on " + m_recording->gpu + ", " + m_recording->date + ", driver " + m_recording->driver;
    m_order.resize(m_recording->rows.size());
    m_validation.total = m_order.size();
    std::iota(m_order.begin(), m_order.end(), std::size_t{0});
    std::stable_sort(m_order.begin(), m_order.end(), [&](std::size_t a, std::size_t b) {
      return effort(m_recording->rows[a]) < effort(m_recording->rows[b]);
    });
  }

  bool step(const std::function<bool()>& wanted) override {
    if (m_next == m_order.size()) return false;
    const std::size_t index = m_order[m_next++];
    ValidatedRow row = validated(m_recording->rows[index], *m_machine, wanted);
    row.index = index;
    auto& rows = m_validation.rows;
    rows.insert(std::upper_bound(rows.begin(), rows.end(), row,
                                 [](const ValidatedRow& a, const ValidatedRow& b) { return a.index < b.index; }),
                std::move(row));
    return m_next < m_order.size();
  }
  Validation result() const override { return m_validation; }
  double progress() const override {
    return m_order.empty() ? 1 : static_cast<double>(m_next) / static_cast<double>(m_order.size());
  }

 private:
  const Machine* m_machine = nullptr;
  const Recording* m_recording = nullptr;
  Validation m_validation;
  std::vector<std::size_t> m_order;
  std::size_t m_next = 0;
};

std::size_t place(MeasuredQuantity quantity) { return static_cast<std::size_t>(quantity); }

}  // namespace

std::optional<double> ValidatedValue::error() const {
  if (!measured.value || *measured.value == 0) return std::nullopt;
  return (predicted - *measured.value) / *measured.value;
}

const std::vector<Entry<MeasuredQuantity>>& quantities() {
  static const std::vector<Entry<MeasuredQuantity>> list = {
      {MeasuredQuantity::time, "time", "time", "first CTA start to last CTA end, at the recorded clock"},
      {MeasuredQuantity::sm_read, "sm_read", "SM read", "from L2 to the SMs, in whole sectors"},
      {MeasuredQuantity::sm_write, "sm_write", "SM write", "from the SMs to L2, in whole sectors"},
      {MeasuredQuantity::hbm_read, "hbm_read", "HBM read", "what L2 did not hold"},
      {MeasuredQuantity::hbm_write, "hbm_write", "HBM write", "written back, dirty lines included"},
  };
  return list;
}

ErrorSummary summary_of(const Validation& validation, MeasuredQuantity quantity) {
  std::vector<double> errors;
  for (const ValidatedRow& row : validation.rows) {
    const ValidatedValue& value = row.values[place(quantity)];
    if (const auto error = value.error(); error && value.resolved && row.refusal.empty())
      errors.push_back(std::fabs(*error));
  }
  ErrorSummary summary;
  summary.rows = static_cast<int>(errors.size());
  if (errors.empty()) return summary;
  std::sort(errors.begin(), errors.end());
  const std::size_t half = errors.size() / 2;
  summary.median = errors.size() % 2 ? errors[half] : (errors[half - 1] + errors[half]) / 2;
  summary.mean = std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size());
  summary.worst = errors.back();
  return summary;
}

std::vector<std::size_t> by_error(const Validation& validation, MeasuredQuantity quantity) {
  std::vector<std::size_t> order(validation.rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto size = [&](std::size_t n) {
    const ValidatedRow& row = validation.rows[n];
    const ValidatedValue& value = row.values[place(quantity)];
    const auto error = value.error();
    return row.refusal.empty() && error && value.resolved ? std::fabs(*error) : -1;
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return size(a) > size(b); });
  return order;
}

Figure validation_figure(const Validation& validation, MeasuredQuantity quantity) {
  const auto& what = entry_of(quantities(), quantity);
  Figure figure;
  figure.title = std::string(what.title) + ", predicted against measured";
  const Unit unit = quantity == MeasuredQuantity::time ? Unit::time_us : Unit::bytes;
  figure.x = {std::string("measured ") + what.title, unit, AxisScale::log10, 0, 0};
  figure.y = {std::string("predicted ") + what.title, unit, AxisScale::log10, 0, 0};
  Series dots{"a row of the recording", Role::right, Series::Form::predicted_dots, {}};
  double lo = 0, hi = 0;
  for (const ValidatedRow& row : validation.rows) {
    const ValidatedValue& value = row.values[place(quantity)];
    if (!row.refusal.empty() || !value.measured.value || !(*value.measured.value > 0 && value.predicted > 0)) continue;
    const double x = *value.measured.value, y = value.predicted;
    lo = lo == 0 ? std::min(x, y) : std::min({lo, x, y});
    hi = std::max({hi, x, y});
    dots.points.push_back({x, y, row.algorithm + ": " + row.problem});
  }
  if (hi > 0) {
    lo /= 1.6;
    hi *= 1.6;
    figure.x.lo = figure.y.lo = lo;
    figure.x.hi = figure.y.hi = hi;
    figure.series.push_back(
        {"equal, and the band of ± 10 %", Role::limit, Series::Form::line, {{lo, lo, ""}, {hi, hi, ""}}});
    for (double off : {1.1, 1 / 1.1})
      figure.series.push_back({"", Role::note, Series::Form::line, {{lo, lo * off, ""}, {hi, hi * off, ""}}});
  }
  figure.series.push_back(std::move(dots));
  return figure;
}

std::unique_ptr<SlicedJob<Validation>> make_validation(const ValidateRequest& request,
                                                       const std::vector<Machine>& machines,
                                                       const std::vector<Recording>& recordings) {
  return std::make_unique<ValidationJob>(request, machines, recordings);
}

Sheet sheet_of(const Validation& validation) {
  Sheet sheet{{"row", "algorithm", "problem"}, {}};
  for (const auto& quantity : quantities())
    for (const char* which : {"_predicted", "_measured", "_error"})
      sheet.columns.push_back(std::string(quantity.key) + which);
  for (const ValidatedRow& row : validation.rows) {
    std::vector<std::string> cells = {std::to_string(row.index), row.algorithm, row.problem};
    for (const ValidatedValue& value : row.values) {
      cells.push_back(row.refusal.empty() ? number_text(value.predicted) : "not predicted (" + row.refusal + ")");
      cells.push_back(value.measured.value ? number_text(*value.measured.value)
                                           : "unavailable (" + value.measured.reason + ")");
      const auto error = value.error();
      cells.push_back(row.refusal.empty() && error ? number_text(*error) : "");
    }
    sheet.rows.push_back(std::move(cells));
  }
  return sheet;
}

}  // namespace flashscope::viz
