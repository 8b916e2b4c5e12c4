#include "viz/core/validation.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <numeric>

#include "viz/io/json_numbers.h"

namespace flashscope::viz {
namespace {

/// What the library throws beside Error (no memory) belongs to the row, too: the worker goes on.
ValidatedRow validated_row_or_why(const RecordingRow& recorded, const Machine& machine,
                                  const std::function<bool()>& wanted) {
  try {
    return validated_row(recorded, machine, [&](double) { return wanted(); });
  } catch (const std::exception& error) {
    ValidatedRow row;
    row.algorithm = recorded.algorithm;
    row.problem = recorded.problem;
    row.refusal = error.what();
    return row;
  }
}

/// Score tiles: what the time of a simulation grows with.
double effort(const RecordingRow& row) {
  const AttentionProblem& p = row.problem;
  return static_cast<double>(p.num_heads()) * num_tiles(p.seqlen_q, row.tile.br) * num_tiles(p.seqlen_k, row.tile.bc);
}

/// Whether the row will be of the set, as far as that is known before it is predicted.
bool may_be_of(const RowGroup& set, const RecordingRow& recorded, const Machine& machine) {
  ValidatedRow row;
  row.hard = is_hard_row(recorded, machine);
  row.after_freeze = recorded.predicted.has_value();
  return set.holds(row);
}

/// Rows at a time: what two cores do in half the time, with the window's frames beside them.
constexpr int kSideBySide = 2;

class ValidationJob final : public SlicedJob<Validation> {
 public:
  ValidationJob(const ValidateRequest& request, const std::vector<Machine>& machines,
                const std::vector<Recording>& recordings, ValidationMemory* memory)
      : m_memory(memory) {
    m_validation.machine = request.machine;
    m_validation.origin = "no recording of " + request.machine + " is shipped";
    for (const Machine& machine : machines)
      if (machine.name == request.machine) m_machine = &machine;
    for (const Recording& recording : recordings)
      if (!m_recording && recording.machine == request.machine) m_recording = &recording;
    if (!m_machine || !m_recording) return;
    m_validation.origin =
        "recorded on " + m_recording->gpu + ", " + m_recording->date + ", driver " + m_recording->driver;
    m_validation.total = m_recording->rows.size();
    m_left.resize(m_recording->rows.size());
    std::iota(m_left.begin(), m_left.end(), std::size_t{0});
    std::stable_sort(m_left.begin(), m_left.end(), [&](std::size_t a, std::size_t b) {
      return effort(m_recording->rows[a]) < effort(m_recording->rows[b]);
    });
    if (!m_memory) return;
    for (const auto& [index, row] : m_memory->rows[request.machine]) {
      m_validation.rows.push_back(row);
      m_left.erase(std::find(m_left.begin(), m_left.end(), index));
    }
    m_shows_kept = !m_validation.rows.empty();
  }

  bool step(const std::function<bool()>& wanted) override {
    if (m_shows_kept) {  // what is known comes at once
      m_shows_kept = false;
      return !m_left.empty();
    }
    std::vector<std::size_t> next;
    while (!m_left.empty() && std::ssize(next) < std::min(kSideBySide, Worker::at_once())) next.push_back(take_next());
    std::vector<ValidatedRow> rows(next.size());
    const auto predict = [&](std::size_t n) {
      rows[n] = validated_row_or_why(m_recording->rows[next[n]], *m_machine, wanted);
      rows[n].index = next[n];
    };
    std::vector<std::unique_ptr<Worker>> others;
    for (std::size_t n = 1; n < next.size(); ++n) others.push_back(std::make_unique<Worker>([&, n] { predict(n); }));
    if (!next.empty()) predict(0);
    for (const auto& other : others) other->join();
    if (!wanted()) return true;  // a row may be half a row
    for (ValidatedRow& row : rows) {
      if (m_memory) m_memory->rows[m_validation.machine][row.index] = row;
      auto& done = m_validation.rows;
      done.insert(std::upper_bound(done.begin(), done.end(), row,
                                   [](const ValidatedRow& a, const ValidatedRow& b) { return a.index < b.index; }),
                  std::move(row));
    }
    return !m_left.empty();
  }
  Validation result() const override { return m_validation; }
  double progress() const override {
    const std::size_t total = m_validation.total;
    return total == 0 ? 1 : static_cast<double>(m_validation.rows.size()) / static_cast<double>(total);
  }

 private:
  std::size_t take_next() {
    const RowGroup& set = row_sets()[static_cast<std::size_t>(m_memory ? m_memory->set.load() : 0)];
    auto next = std::find_if(m_left.begin(), m_left.end(),
                             [&](std::size_t index) { return may_be_of(set, m_recording->rows[index], *m_machine); });
    if (next == m_left.end()) next = m_left.begin();
    const std::size_t index = *next;
    m_left.erase(next);
    return index;
  }

  const Machine* m_machine = nullptr;
  const Recording* m_recording = nullptr;
  ValidationMemory* m_memory;
  Validation m_validation;
  std::vector<std::size_t> m_left;  // places in the recording, short runs first
  bool m_shows_kept = false;
};

}  // namespace

std::vector<std::size_t> by_error(const Validation& validation, MeasuredQuantity quantity) {
  std::vector<std::size_t> order(validation.rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto size = [&](std::size_t n) {
    const ValidatedRow& row = validation.rows[n];
    const ValidatedValue& value = row.value(quantity);
    const auto error = value.error();
    return row.refusal.empty() && error && value.is_counted() ? std::fabs(*error) : -1;
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return size(a) > size(b); });
  return order;
}

Figure validation_figure(const Validation& validation, MeasuredQuantity quantity, const RowGroup& set) {
  const auto& what = entry_of(quantities(), quantity);
  Figure figure;
  figure.title = std::string(what.title) + ", predicted against recorded";
  const Unit unit = quantity == MeasuredQuantity::time ? Unit::time_us : Unit::bytes;
  figure.x = {std::string("recorded ") + what.title, unit, AxisScale::log10, 0, 0};
  figure.y = {std::string("predicted ") + what.title, unit, AxisScale::log10, 0, 0};
  Series passes{"three passes", Role::left, Series::Form::predicted_dots, {}};
  Series tiled{"tiled", Role::right, Series::Form::predicted_dots, {}};
  double lo = 0, hi = 0;
  for (const ValidatedRow& row : validation.rows) {
    const ValidatedValue& value = row.value(quantity);
    if (!set.holds(row) || !row.refusal.empty() || !value.measured.value || !(*value.measured.value > 0 && value.predicted > 0)) continue;
    const double x = *value.measured.value, y = value.predicted;
    lo = lo == 0 ? std::min(x, y) : std::min({lo, x, y});
    hi = std::max({hi, x, y});
    Series& dots = row.algorithm.rfind("three_pass", 0) == 0 ? passes : tiled;
    dots.points.push_back({x, y, row.algorithm + ": " + row.described});
  }
  if (hi > 0) {
    lo /= 1.6;
    hi *= 1.6;
    figure.x.lo = figure.y.lo = lo;
    figure.x.hi = figure.y.hi = hi;
    figure.series.push_back(
        {"predicted = recorded, ± 10 %", Role::limit, Series::Form::line, {{lo, lo, ""}, {hi, hi, ""}}});
    for (double off : {1.1, 1 / 1.1})
      figure.series.push_back({"", Role::note, Series::Form::line, {{lo, lo * off, ""}, {hi, hi * off, ""}}});
  }
  figure.series.push_back(std::move(passes));
  figure.series.push_back(std::move(tiled));
  if (hi == 0)
    figure.note = validation.total == 0
                      ? "Nothing is recorded for this GPU, so nothing is compared. Another one is chosen in Explore."
                  : validation.rows.empty() ? "Predicting the first rows …"
                                            : "No row of this set has both values yet.";
  return figure;
}

std::unique_ptr<SlicedJob<Validation>> make_validation(const ValidateRequest& request,
                                                       const std::vector<Machine>& machines,
                                                       const std::vector<Recording>& recordings,
                                                       ValidationMemory* memory) {
  return std::make_unique<ValidationJob>(request, machines, recordings, memory);
}

Sheet sheet_of(const Validation& validation) {
  Sheet sheet{{"row", "algorithm", "problem", "hard", "after_freeze"}, {}};
  for (const auto& quantity : quantities())
    for (const char* which : {"_predicted", "_measured", "_error", "_remark"})
      sheet.columns.push_back(std::string(quantity.key) + which);
  for (const ValidatedRow& row : validation.rows) {
    std::vector<std::string> cells = {std::to_string(row.index), row.algorithm, row.described, row.hard ? "1" : "0",
                                      row.after_freeze ? "1" : "0"};
    for (const ValidatedValue& value : row.values) {
      cells.push_back(row.refusal.empty() ? number_text(value.predicted) : "not predicted (" + row.refusal + ")");
      cells.push_back(value.measured.value ? number_text(*value.measured.value)
                                           : "unavailable (" + value.measured.reason + ")");
      const auto error = value.error();
      cells.push_back(row.refusal.empty() && error ? number_text(*error) : "");
      cells.push_back(row.refusal.empty() ? remark_on(value.standing) : "");
    }
    sheet.rows.push_back(std::move(cells));
  }
  return sheet;
}

}  // namespace flashscope::viz
