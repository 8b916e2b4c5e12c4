// flashscope validate: predicted against recorded, row by row, and the summary of errors.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "sim/error.h"
#include "sim/schedule/algorithms.h"
#include "viz/cli/command.h"
#include "viz/cli/describe.h"
#include "viz/cli/options.h"
#include "viz/cli/table.h"
#include "viz/io/machine_io.h"
#include "viz/io/prediction_io.h"
#include "viz/io/recording.h"
#include "viz/io/version.h"

namespace flashscope {
namespace {

constexpr std::int64_t kCounterResolution = 2 << 20;  // below this, counters say little
constexpr std::int64_t kByteAllowance = 64 << 10;     // a difference that never counts as an error
constexpr double kShortUs = 10, kShortAllowanceUs = 1.5;

struct Options {
  std::vector<std::string> recordings;  // at most one
  std::string gpu;
  bool json = false, csv = false;
};

/// One quantity of one row.
struct Compared {
  const char* quantity;
  double predicted = 0;
  kernels::Measured<double> measured;
  std::string mark;  // why the error does not count, or ""

  bool judged() const { return measured.value && *measured.value != 0 && mark.empty(); }
  double error() const { return (predicted - *measured.value) / *measured.value; }
};

struct Row {
  const RecordingRow* recorded;
  std::string title, refusal;  // refusal: why it could not be predicted
  std::vector<Compared> quantities;
};

Compared compare_bytes(const char* quantity, std::int64_t predicted, const kernels::Measured<std::int64_t>& measured) {
  Compared c = {quantity, static_cast<double>(predicted), {}, ""};
  if (!measured.value) {
    c.measured = kernels::Measured<double>::unavailable(measured.reason);
    return c;
  }
  c.measured = kernels::Measured<double>::of(static_cast<double>(*measured.value));
  if (std::max(predicted, *measured.value) < kCounterResolution)
    c.mark = "below counter resolution";
  else if (std::abs(predicted - *measured.value) <= kByteAllowance)
    c.mark = "within 64 KiB";
  return c;
}

Compared compare_time(double predicted, const kernels::Measured<double>& measured) {
  Compared c = {"time_us", predicted, measured, ""};
  if (measured.value && *measured.value < kShortUs)
    c.mark = std::abs(predicted - *measured.value) <= kShortAllowanceUs ? "within 1.5 µs" : "over 1.5 µs off";
  return c;
}

Row compare_row(const RecordingRow& recorded, const Machine& machine) {
  Row row;
  row.recorded = &recorded;
  row.title = recorded.algorithm + ": " + describe(recorded.problem) + "; " + describe(recorded.tile);
  const kernels::Measurement& m = recorded.measured;
  try {
    const auto schedule = make_schedule(recorded.algorithm, recorded.problem, recorded.tile);
    RunOptions run;
    run.start = recorded.start;
    const Prediction p = simulate(*schedule, at_measured_clock(machine, m), run);
    row.quantities = {compare_bytes("sm_read_bytes", p.count.sm.sector_read, m.sm_read_bytes),
                      compare_bytes("sm_write_bytes", p.count.sm.sector_write, m.sm_write_bytes),
                      compare_bytes("hbm_read_bytes", p.hbm.read, m.hbm_read_bytes),
                      compare_bytes("hbm_write_bytes", p.hbm.write + p.hbm_dirty_bytes, m.hbm_write_bytes),
                      compare_time(p.time_us(), m.time_us)};
  } catch (const Error& error) {  // e.g. a tile that this machine's SMs cannot hold
    row.refusal = error.what();
  }
  return row;
}

/// Rows know nothing of each other: each core takes the next one, and each row is kept at its place, so that the output
/// is the same for any number of cores.
std::vector<Row> compare_rows(const Recording& recording, const Machine& machine) {
  std::vector<Row> rows(recording.rows.size());
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;  // the first; compare_row reports refusals itself
  const auto take_rows = [&] {
    try {
      for (std::size_t n = next++; n < rows.size(); n = next++) rows[n] = compare_row(recording.rows[n], machine);
    } catch (...) {
      next = rows.size();
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  try {
    while (threads.size() + 1 < std::min(cores, rows.size())) threads.emplace_back(take_rows);
  } catch (const std::system_error&) {  // no more threads to be had: those there are do it
  }
  take_rows();
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
  return rows;
}

/// Errors of one quantity over the rows that are judged, as shares of the measured value.
struct Summary {
  const char* quantity;
  int judged = 0, within_allowance = 0, below_resolution = 0, unavailable = 0;
  double median = 0, mean = 0, worst = 0;  // of the absolute errors
};

using Chosen = std::function<bool(const RecordingRow&)>;

std::vector<Summary> summarize(const std::vector<Row>& rows, const Chosen& chosen) {
  std::vector<Summary> summaries;
  for (std::size_t q = 0; q < 5; ++q) {
    static constexpr const char* names[] = {"sm_read_bytes", "sm_write_bytes", "hbm_read_bytes", "hbm_write_bytes",
                                            "time_us"};
    Summary s = {names[q]};
    std::vector<double> errors;
    for (const Row& row : rows) {
      if (row.quantities.empty() || !chosen(*row.recorded)) continue;
      const Compared& c = row.quantities[q];
      if (!c.measured.value) {
        ++s.unavailable;
      } else if (c.mark == "below counter resolution") {
        ++s.below_resolution;
      } else {
        // A difference within the allowance is right, and counts as it is.
        s.within_allowance += !c.mark.empty();
        if (*c.measured.value != 0) errors.push_back(std::abs(c.error()));
      }
    }
    std::sort(errors.begin(), errors.end());
    s.judged = static_cast<int>(errors.size());
    if (!errors.empty()) {
      const std::size_t half = errors.size() / 2;
      s.median = errors.size() % 2 ? errors[half] : (errors[half - 1] + errors[half]) / 2;
      for (double e : errors) s.mean += e / static_cast<double>(errors.size());
      s.worst = errors.back();
    }
    summaries.push_back(s);
  }
  return summaries;
}

/// Rows that are summed up together: all, each rung's, each size's (by the longer of the two sequences).
struct Group {
  std::string by, name;  // "algorithm", "flash_v2"
  Chosen chosen;
};

std::vector<Group> groups_of(const std::vector<Row>& rows) {
  std::vector<Group> groups;
  for (Pass pass : {Pass::forward, Pass::backward})
    for (const Algorithm& algorithm : algorithms(pass))
      groups.push_back({"algorithm", algorithm.name + (pass == Pass::backward ? " backward" : ""),
                        [name = algorithm.name, pass](const RecordingRow& row) {
                          return row.algorithm == name && row.problem.pass == pass;
                        }});
  constexpr int kSizes[] = {0, 1024, 4096, kMaxSeqlen};
  for (std::size_t n = 1; n < std::size(kSizes); ++n) {
    const int lo = kSizes[n - 1], hi = kSizes[n];
    const std::string name = n + 1 == std::size(kSizes) ? fmt::format("seqlen above {}", grouped(lo))
                                                        : fmt::format("seqlen {} to {}", grouped(lo + 1), grouped(hi));
    groups.push_back({"size", name, [lo, hi](const RecordingRow& row) {
                        const int longer = std::max(row.problem.seqlen_q, row.problem.seqlen_k);
                        return lo < longer && longer <= hi;
                      }});
  }
  const auto is_empty = [&](const Group& group) {
    return std::none_of(rows.begin(), rows.end(), [&](const Row& row) { return group.chosen(*row.recorded); });
  };
  groups.erase(std::remove_if(groups.begin(), groups.end(), is_empty), groups.end());
  return groups;
}

const Chosen kEveryRow = [](const RecordingRow&) { return true; };

std::string value_text(const Compared& c, double value) {
  return std::string(c.quantity) == "time_us" ? grouped_decimal(value, 1) : grouped(static_cast<std::int64_t>(value));
}

std::string table_text(const Recording& recording, const Machine& machine, const std::vector<Row>& rows) {
  using enum Table::Align;
  std::string text =
      fmt::format("Recorded on {} (driver {}, CUDA {}), {}; predicted for {}, each row at its recorded clock\n\n",
                  recording.gpu, recording.driver, recording.cuda, recording.date, machine.title);
  Table table({left, right, right, right, left});
  table.row({"", "predicted", "recorded", "error", ""});
  for (const Row& row : rows) {
    table.row({row.title});
    if (!row.refusal.empty()) table.row({"  not predicted: " + row.refusal});
    for (const Compared& c : row.quantities) {
      if (c.measured.value)
        table.row({std::string("  ") + c.quantity, value_text(c, c.predicted), value_text(c, *c.measured.value),
                   error_text(c.predicted, *c.measured.value), c.mark});
      else
        table.row({std::string("  ") + c.quantity, value_text(c, c.predicted), "unavailable", "", c.measured.reason});
    }
  }
  text += table.text() + "\nErrors (absolute, in percent of the recorded value)\n";
  Table sums({left, right, right, right, right, left});
  sums.row({"", "rows", "median", "mean", "worst", ""});
  const auto percent = [](double share) { return fmt::format("{:.2f} %", 100 * share); };
  for (const Summary& s : summarize(rows, kEveryRow)) {
    std::string rest;
    if (s.within_allowance) rest += fmt::format("{} of them within the allowance; ", s.within_allowance);
    if (s.below_resolution) rest += fmt::format("{} more below counter resolution; ", s.below_resolution);
    if (s.unavailable) rest += fmt::format("{} unavailable; ", s.unavailable);
    if (!rest.empty()) rest.resize(rest.size() - 2);
    sums.row({s.quantity, std::to_string(s.judged), s.judged ? percent(s.median) : "n/a",
              s.judged ? percent(s.mean) : "n/a", s.judged ? percent(s.worst) : "n/a", rest});
  }
  text += sums.text() + "\nThe same by rung and by size: mean, worst\n";
  Table parts({left, right, right, right, right, right, right});
  parts.row({"", "rows", "SM reads", "SM writes", "HBM reads", "HBM writes", "time"});
  for (const Group& group : groups_of(rows)) {
    std::vector<std::string> cells = {group.name, ""};
    for (const Summary& s : summarize(rows, group.chosen)) {
      cells[1] = std::to_string(s.judged);  // of the last quantity: the time
      cells.push_back(s.judged ? fmt::format("{:.1f}, {:.1f} %", 100 * s.mean, 100 * s.worst) : "n/a");
    }
    parts.row(cells);
  }
  return text + parts.text() + "\n" +
         "Allowances: 64 KiB for bytes, 1.5 µs for rows under 10 µs. Rows under 2 MiB are below counter resolution.\n";
}

Json quantity_json(const Compared& c) {
  const bool is_time = std::string(c.quantity) == "time_us";
  const auto number = [&](double value) {
    return is_time ? json_number(value) : Json(static_cast<std::int64_t>(value));
  };
  Json object = {{"predicted", number(c.predicted)}};
  object["recorded"] = c.measured.value ? number(*c.measured.value) : Json("unavailable (" + c.measured.reason + ")");
  object["error"] = c.measured.value && *c.measured.value != 0 ? json_number(c.error()) : Json(nullptr);
  object["mark"] = c.mark;
  return object;
}

std::string json_report(const Recording& recording, const Machine& machine, const std::vector<Row>& rows) {
  Json list = Json::array();
  for (const Row& row : rows) {
    Json object = {
        {"algorithm", row.recorded->algorithm},
        {"pass", name_of(row.recorded->problem.pass)},
        {"problem", problem_to_json(row.recorded->problem)},
        {"tile", tile_to_json(row.recorded->tile)},
        {"start", name_of(row.recorded->start)}};
    if (!row.refusal.empty()) object["not_predicted"] = row.refusal;
    for (const Compared& c : row.quantities) object[c.quantity] = quantity_json(c);
    list.push_back(object);
  }
  const auto summary_json = [&](const Chosen& chosen) {
    Json summary = Json::object();
    for (const Summary& s : summarize(rows, chosen)) {
      const auto share = [&](double value) { return s.judged ? json_number(value) : Json(nullptr); };
      summary[s.quantity] = {{"rows", s.judged},
                             {"within_allowance", s.within_allowance},
                             {"below_counter_resolution", s.below_resolution},
                             {"unavailable", s.unavailable},
                             {"median_error", share(s.median)},
                             {"mean_error", share(s.mean)},
                             {"worst_error", share(s.worst)}};
    }
    return summary;
  };
  Json by = Json::object();
  for (const Group& group : groups_of(rows)) by[group.by][group.name] = summary_json(group.chosen);
  Json document = {{"gpu", recording.gpu},
                   {"machine", machine.name},
                   {"date", recording.date},
                   {"rows", list},
                   {"summary", summary_json(kEveryRow)},
                   {"summary_by", by}};
  stamp(document);
  return json_text(document, -1);
}

std::string csv_report(const std::vector<Row>& rows) {
  std::string text = "algorithm,problem,br,bc,quantity,predicted,recorded,error,mark\n";
  for (const Row& row : rows)
    for (const Compared& c : row.quantities) {
      const Json cell = quantity_json(c);
      const auto plain = [](const Json& value) {
        return value.is_null() ? "" : csv_field(value.is_string() ? value.get<std::string>() : value.dump());
      };
      text += fmt::format("{},{},{},{},{},{},{},{},{}\n", row.recorded->algorithm,
                          csv_field(describe(row.recorded->problem)), row.recorded->tile.br, row.recorded->tile.bc,
                          c.quantity, plain(cell["predicted"]), plain(cell["recorded"]), plain(cell["error"]),
                          csv_field(c.mark));
    }
  return text;
}

Recording recording_of(const Options& options) {
  if (!options.recordings.empty()) return load_recording(options.recordings[0]);
  const std::vector<std::string> names = recording_names();
  if (names.empty())
    throw Error(ErrorKind::unsupported,
                "no recording is shipped with this build; name a file: flashscope validate RECORDING");
  return shipped_recording(names.front());
}

void validate_command(const Options& options, Context& context) {
  if (options.json && options.csv) throw Error(ErrorKind::usage, "--json, --csv: give one of them");
  const Recording recording = recording_of(options);
  const Machine machine = load_machine(options.gpu.empty() ? recording.machine : options.gpu);
  const std::vector<Row> rows = compare_rows(recording, machine);
  context.print(options.json  ? json_report(recording, machine, rows)
                : options.csv ? csv_report(rows)
                              : table_text(recording, machine, rows));
}

}  // namespace

Action declare_validate(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  add_positionals(app, "RECORDING", 1, "a recording file (the first shipped one)", options->recordings);
  add_text(app, "--gpu", "NAME|FILE", "machine to predict with (the recording's)", options->gpu);
  add_flag(app, "--json", "every row and the summary as one JSON object", options->json);
  add_flag(app, "--csv", "one line a row and quantity", options->csv);
  return [options](Context& context) { validate_command(*options, context); };
}

}  // namespace flashscope
