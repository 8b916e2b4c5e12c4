// flashscope validate: predicted against recorded, row by row, and the summary of errors. With --ncu against the
// counters of a kernel of somebody else, which the problem options describe.
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
#include "viz/cli/format.h"
#include "viz/cli/options.h"
#include "viz/cli/problem_options.h"
#include "viz/cli/table.h"
#include "viz/io/json_numbers.h"
#include "viz/io/files.h"
#include "viz/io/machine_io.h"
#include "viz/io/ncu_csv.h"
#include "viz/io/prediction_io.h"
#include "viz/io/recording.h"
#include "viz/io/version.h"

namespace flashscope {
namespace {

constexpr std::int64_t kCounterResolution = 2 << 20;  // below this, counters say little
constexpr std::int64_t kByteAllowance = 64 << 10;     // a difference that never counts as an error
constexpr double kShortUs = 10, kShortAllowanceUs = 1.5;
const std::string kWarm = "cache-warm: L2 held some of it before";  // what it held is a guess: no error of the model

struct Options {
  std::vector<std::string> recordings;  // at most one
  std::string gpu;
  bool json = false, csv = false;
  std::string ncu;                    // a file; the rest belongs to it
  std::string kernel, launches;       // which of its launches: part of the name; numbers, added up
  ProblemOptions described;
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
  std::int64_t dirty_bytes = 0;  // of hbm_write_bytes, predicted to be in L2 still when the last kernel ends
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
    row.dirty_bytes = p.hbm_dirty_bytes;
    if (recorded.start == Start::warm) row.quantities[2].mark = row.quantities[3].mark = kWarm;
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
  int judged = 0, within_allowance = 0, below_resolution = 0, warm = 0, unavailable = 0;
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
      } else if (c.mark == kWarm) {
        ++s.warm;
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
    const std::string name = n + 1 == std::size(kSizes) ? formatted("seqlen above {}", grouped(lo))
                                                        : formatted("seqlen {} to {}", grouped(lo + 1), grouped(hi));
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

std::string rows_text(const std::vector<Row>& rows) {
  using enum Table::Align;
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
  return table.text();
}

std::string table_text(const Recording& recording, const Machine& machine, const std::vector<Row>& rows) {
  using enum Table::Align;
  std::string text =
      formatted("Recorded on {} (driver {}, CUDA {}), {}; predicted for {}, each row at its recorded clock\n\n",
                recording.gpu, recording.driver, recording.cuda, recording.date, machine.title);
  text += rows_text(rows) + "\nErrors (absolute, in percent of the recorded value)\n";
  Table sums({left, right, right, right, right, left});
  sums.row({"", "rows", "median", "mean", "worst", ""});
  const auto percent = [](double share) { return formatted("{:.2f} %", 100 * share); };
  for (const Summary& s : summarize(rows, kEveryRow)) {
    std::string rest;
    if (s.within_allowance) rest += formatted("{} of them within the allowance; ", s.within_allowance);
    if (s.below_resolution) rest += formatted("{} more below counter resolution; ", s.below_resolution);
    if (s.warm) rest += formatted("{} more cache-warm; ", s.warm);
    if (s.unavailable) rest += formatted("{} unavailable; ", s.unavailable);
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
      cells.push_back(s.judged ? formatted("{:.1f}, {:.1f} %", 100 * s.mean, 100 * s.worst) : "n/a");
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

Json rows_json(const std::vector<Row>& rows) {
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
  return list;
}

std::string json_report(const Recording& recording, const Machine& machine, const std::vector<Row>& rows) {
  const auto summary_json = [&](const Chosen& chosen) {
    Json summary = Json::object();
    for (const Summary& s : summarize(rows, chosen)) {
      const auto share = [&](double value) { return s.judged ? json_number(value) : Json(nullptr); };
      summary[s.quantity] = {{"rows", s.judged},
                             {"within_allowance", s.within_allowance},
                             {"below_counter_resolution", s.below_resolution},
                             {"cache_warm", s.warm},
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
                   {"rows", rows_json(rows)},
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
      text += formatted("{},{},{},{},{},{},{},{},{}\n", row.recorded->algorithm,
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

/// The launches that --kernel and --launch choose, as one; several are added up only where --launch names them.
NcuLaunch chosen_launch(const Options& options) {
  const std::vector<NcuLaunch> all = ncu_launches_from_csv(read_text_file(options.ncu), options.ncu);
  std::string list;  // for messages
  for (std::size_t n = 0; n < all.size(); ++n)
    if (n < 20) list += formatted("\n  {}  {}", all[n].id, all[n].kernel);
  if (all.size() > 20) list += formatted("\n  … and {} more", all.size() - 20);
  std::vector<NcuLaunch> chosen;
  if (!options.launches.empty()) {
    for (const std::string& id : split(options.launches, ',')) {
      const std::size_t before = chosen.size();
      for (const NcuLaunch& launch : all)
        if (launch.id == id) chosen.push_back(launch);
      if (chosen.size() == before)
        throw Error(ErrorKind::usage, "--launch: '" + id + "' is none of the launches in " + options.ncu + ":" + list);
    }
    return sum_of(chosen);
  }
  for (const NcuLaunch& launch : all)
    if (launch.kernel.find(options.kernel) != std::string::npos) chosen.push_back(launch);
  if (chosen.empty())
    throw Error(ErrorKind::usage,
                "--kernel: no launch in " + options.ncu + " has '" + options.kernel + "' in its name:" + list);
  if (chosen.size() > 1)
    throw Error(ErrorKind::usage,
                formatted("{} has {} launches{}; choose one by --kernel TEXT or --launch ID, or several to be added up "
                          "by --launch ID,ID:",
                          options.ncu, chosen.size(), options.kernel.empty() ? "" : " of that name") +
                    list);
  return chosen.front();
}

/// The user's kernel: its counters beside what the problem options predict.
void validate_ncu(const Options& options, Context& context) {
  if (!options.recordings.empty())
    throw Error(ErrorKind::usage, "--ncu: give it alone, or a recording (" + options.recordings[0] + ") alone");
  const NcuLaunch launch = chosen_launch(options);
  ProblemOptions described = options.described;
  if (!options.gpu.empty()) described.gpu = options.gpu;
  const auto schedule = described.schedule();
  const Machine machine = described.machine();
  RecordingRow recorded;
  recorded.problem = schedule->problem();
  recorded.algorithm = schedule->algorithm();
  recorded.tile = schedule->tile();
  recorded.start = described.start;
  recorded.measured = launch.measured;
  std::vector<Row> rows = {compare_row(recorded, machine)};
  if (!rows[0].refusal.empty()) throw Error(ErrorKind::unsupported, rows[0].refusal);
  // ncu stops counting when the kernel ends, so what is then dirty in L2 is missing.
  Compared& writes = rows[0].quantities[3];
  if (writes.judged() && *writes.measured.value < writes.predicted &&
      *writes.measured.value + static_cast<double>(rows[0].dirty_bytes + kByteAllowance) >= writes.predicted)
    writes.mark = formatted("not drained: up to {} B of it may still be in L2", grouped(rows[0].dirty_bytes));
  if (options.csv) return context.print(csv_report(rows));
  if (options.json) {
    Json document = {{"ncu", {{"file", options.ncu}, {"launch", launch.id}, {"kernel", launch.kernel},
                              {"rounded_to_bytes", launch.rounded_to_bytes}}},
                     {"machine", machine.name},
                     {"rows", rows_json(rows)}};
    stamp(document);
    return context.print(json_text(document, -1));
  }
  std::string text = formatted("{}, launch {}: {}\nPredicted for {}{}\n\n", options.ncu, launch.id, launch.kernel,
                               machine.title, launch.measured.sm_clock_mhz.value ? ", at the clock that ncu saw" : "");
  text += rows_text(rows);
  if (launch.rounded_to_bytes > 1)
    text += formatted("\nncu rounded bytes to {}; ncu --print-units base prints all digits\n",
                      grouped(launch.rounded_to_bytes));
  context.print(text);
}

void validate_command(const Options& options, Context& context) {
  if (options.json && options.csv) throw Error(ErrorKind::usage, "--json, --csv: give one of them");
  if (!options.ncu.empty()) return validate_ncu(options, context);
  if (!options.kernel.empty() || !options.launches.empty() || !(options.described == ProblemOptions{}))
    throw Error(ErrorKind::usage, "--kernel, --launch and the problem options describe the kernel of --ncu FILE; a "
                                  "recording says itself what its rows are");
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
  add_text(app, "--gpu", "NAME|FILE", "machine to predict with (the recording's; nvidia-h200)", options->gpu);
  add_flag(app, "--json", "every row and the summary as one JSON object", options->json);
  add_flag(app, "--csv", "one line a row and quantity", options->csv);
  add_text(app, "--ncu", "FILE", "instead of a recording: ncu --csv of a kernel that the problem options describe",
           options->ncu);
  add_text(app, "--kernel", "TEXT", "of --ncu: the launch with this in its kernel's name", options->kernel);
  add_text(app, "--launch", "ID,…", "of --ncu: these launches by their ID, added up", options->launches);
  ProblemOptionSet which;
  which.gpu = false;
  add_problem_options(app, options->described, which);
  return [options](Context& context) { validate_command(*options, context); };
}

}  // namespace flashscope
