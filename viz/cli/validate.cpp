// flashscope validate: predicted against recorded, row by row, and the summary of errors. With --ncu against the
// counters of a kernel of somebody else, which the problem options describe.
#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "sim/error.h"
#include "viz/cli/command.h"
#include "viz/cli/describe.h"
#include "viz/cli/format.h"
#include "viz/cli/options.h"
#include "viz/cli/problem_options.h"
#include "viz/cli/table.h"
#include "viz/core/error_summary.h"
#include "viz/io/json_numbers.h"
#include "viz/io/files.h"
#include "viz/io/machine_io.h"
#include "viz/io/ncu_csv.h"
#include "viz/io/prediction_io.h"
#include "viz/io/recording.h"
#include "viz/io/version.h"

namespace flashscope {
namespace {

struct Options {
  std::vector<std::string> recordings;  // at most one
  std::string gpu;
  bool json = false, csv = false;
  std::string ncu;                    // a file; the rest belongs to it
  std::string kernel, launches;       // which of its launches: part of the name; numbers, added up
  ProblemOptions described;
};

using viz::ErrorSummary;
using viz::MeasuredQuantity;
using viz::RowGroup;
using viz::ValidatedRow;
using viz::ValidatedValue;

/// What is printed: the rows of a recording, and the same rows validated.
struct Report {
  std::vector<RecordingRow> recorded;
  std::vector<ValidatedRow> rows;
};

/// Rows know nothing of each other: each core takes the next one, and each row is kept at its place, so that the output
/// is the same for any number of cores.
Report validated(std::vector<RecordingRow> recorded, const Machine& machine) {
  Report report = {std::move(recorded), {}};
  report.rows.resize(report.recorded.size());
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;  // the first; validated_row() reports refusals itself
  const auto take_rows = [&] {
    try {
      for (std::size_t n = next++; n < report.rows.size(); n = next++) {
        report.rows[n] = viz::validated_row(report.recorded[n], machine);
        report.rows[n].index = n;
      }
    } catch (...) {
      next = report.rows.size();
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  try {
    for (unsigned n = 1; n < std::thread::hardware_concurrency(); ++n) others.emplace_back(take_rows);
  } catch (const std::system_error&) {  // no more threads to be had: fewer will do
  }
  take_rows();
  for (std::thread& other : others) other.join();
  if (failure) std::rethrow_exception(failure);
  return report;
}

std::string value_text(MeasuredQuantity quantity, double value) {
  return quantity == MeasuredQuantity::time ? grouped_decimal(value, 1) : grouped(static_cast<std::int64_t>(value));
}

std::string remark_text(const ValidatedRow& row, const ValidatedValue& value) {
  return value.standing == viz::Standing::not_drained
             ? formatted("not drained: up to {} B of it may still be in L2", grouped(row.dirty_bytes))
             : viz::remark_on(value.standing);
}

std::string rows_text(const Report& report) {
  using enum Table::Align;
  Table table({left, right, right, right, left});
  table.row({"", "predicted", "recorded", "error", ""});
  for (const ValidatedRow& row : report.rows) {
    const RecordingRow& recorded = report.recorded[row.index];
    table.row({recorded.algorithm + ": " + describe(recorded.problem) + "; " + describe(recorded.tile) +
               (row.hard ? "; hard" : "") + (row.after_freeze ? "; recorded after the freeze" : "")});
    if (!row.refusal.empty()) table.row({"  not predicted: " + row.refusal});
    if (!row.wrong_output.empty()) table.row({"  wrong output: " + row.wrong_output});
    if (!row.refusal.empty()) continue;
    for (const auto& [quantity, key, title, what] : viz::quantities()) {
      const ValidatedValue& value = row.value(quantity);
      const std::string name = "  " + viz::name_in_files(quantity);
      if (value.measured.value)
        table.row({name, value_text(quantity, value.predicted), value_text(quantity, *value.measured.value),
                   value.error() ? error_text(value.predicted, *value.measured.value) : "", remark_text(row, value)});
      else
        table.row({name, value_text(quantity, value.predicted), "unavailable", "", value.measured.reason});
    }
  }
  return table.text();
}

/// "3 of them within 64 KiB; 2 more below counter resolution"
std::string others_text(const ErrorSummary& s) {
  std::string text;
  const auto add = [&](int rows, const char* what) {
    if (rows > 0) text += (text.empty() ? "" : "; ") + std::to_string(rows) + " " + what;
  };
  add(s.within_allowance, "of them within 64 KiB");
  add(s.within_short, "more under 10 µs and within 1.5 µs");
  add(s.below_resolution, "more below counter resolution");
  add(s.warm, "more cache-warm");
  add(s.unavailable, "unavailable");
  add(s.not_predicted, "not predicted");
  add(s.wrong_output, "with a wrong output");
  return text;
}

std::string set_text(const std::vector<ValidatedRow>& rows, const RowGroup& set) {
  using enum Table::Align;
  const int size = viz::rows_in(rows, set);
  std::string text = formatted("{}: {} of {}\n", set.title, size, rows.size());
  if (size == 0) return text;
  Table table({left, right, right, right, right, left});
  table.row({"", "rows", "median", "mean", "worst", ""});
  const auto percent = [](const ErrorSummary& s, double share) {
    return s.rows ? formatted("{:.2f} %", 100 * share) : std::string("n/a");
  };
  for (const auto& quantity : viz::quantities()) {
    const ErrorSummary s = viz::summary_of(rows, quantity.which, set);
    table.row({"  " + viz::name_in_files(quantity.which), std::to_string(s.rows), percent(s, s.median),
               percent(s, s.mean), percent(s, s.worst), others_text(s)});
  }
  return text + table.text();
}

std::string parts_text(const std::vector<ValidatedRow>& rows) {
  using enum Table::Align;
  Table table({left, right, right, right, right, right, right});
  std::vector<std::string> cells = {"", "rows"};
  for (const auto& quantity : viz::quantities()) cells.push_back(quantity.title);
  table.row(cells);
  for (const RowGroup& part : viz::row_parts(rows)) {
    cells = {part.title, std::to_string(viz::rows_in(rows, part))};
    for (const auto& quantity : viz::quantities()) {
      const ErrorSummary s = viz::summary_of(rows, quantity.which, part);
      cells.push_back(s.rows ? formatted("{:.1f}, {:.1f} %", 100 * s.mean, 100 * s.worst) : "n/a");
    }
    table.row(cells);
  }
  return table.text();
}

std::string meanings_text() {
  std::string text =
      "Allowances: 64 KiB for bytes, 1.5 µs for rows under 10 µs. Rows under 2 MiB are below counter resolution.\n";
  for (const RowGroup& set : viz::row_sets())
    if (set.key != "all") text += formatted("{}: {}\n", set.title, set.meaning);
  return text;
}

std::string table_text(const Recording& recording, const Machine& machine, const Report& report) {
  std::string text =
      formatted("Recorded on {} (driver {}, CUDA {}), {}; predicted for {}, each row at its recorded clock\n\n",
                recording.gpu, recording.driver, recording.cuda, recording.date, machine.title);
  text += rows_text(report) + "\nErrors (absolute, in percent of the recorded value)\n\n";
  for (const RowGroup& set : viz::row_sets()) text += set_text(report.rows, set) + "\n";
  return text + "all rows by rung and by size: mean, worst\n" + parts_text(report.rows) + "\n" + meanings_text();
}

Json number_json(MeasuredQuantity quantity, double value) {
  return quantity == MeasuredQuantity::time ? json_number(value) : Json(static_cast<std::int64_t>(value));
}

Json value_json(const ValidatedRow& row, MeasuredQuantity quantity) {
  const ValidatedValue& value = row.value(quantity);
  Json object = {{"predicted", row.refusal.empty() ? number_json(quantity, value.predicted) : Json(nullptr)}};
  object["recorded"] = value.measured.value ? number_json(quantity, *value.measured.value)
                                            : Json("unavailable (" + value.measured.reason + ")");
  const auto error = value.error();
  object["error"] = error ? json_number(*error) : Json(nullptr);
  object["mark"] = value.measured.value ? remark_text(row, value) : "";
  return object;
}

Json rows_json(const Report& report) {
  Json list = Json::array();
  for (const ValidatedRow& row : report.rows) {
    const RecordingRow& recorded = report.recorded[row.index];
    Json object = {{"algorithm", recorded.algorithm},
                   {"pass", name_of(recorded.problem.pass)},
                   {"problem", problem_to_json(recorded.problem)},
                   {"tile", tile_to_json(recorded.tile)},
                   {"start", name_of(recorded.start)},
                   {"hard", row.hard},
                   {"after_freeze", row.after_freeze}};
    if (!row.refusal.empty()) object["not_predicted"] = row.refusal;
    if (!row.wrong_output.empty()) object["wrong_output"] = row.wrong_output;
    for (const auto& quantity : viz::quantities())
      object[viz::name_in_files(quantity.which)] = value_json(row, quantity.which);
    list.push_back(object);
  }
  return list;
}

Json summary_json(const std::vector<ValidatedRow>& rows, const RowGroup& group) {
  Json summary = {{"rows", viz::rows_in(rows, group)}};
  for (const auto& quantity : viz::quantities()) {
    const ErrorSummary s = viz::summary_of(rows, quantity.which, group);
    const auto share = [&](double value) { return s.rows ? json_number(value) : Json(nullptr); };
    summary[viz::name_in_files(quantity.which)] = {{"rows", s.rows},
                                                   {"within_allowance", s.within_allowance},
                                                   {"short_within_allowance", s.within_short},
                                                   {"below_counter_resolution", s.below_resolution},
                                                   {"cache_warm", s.warm},
                                                   {"unavailable", s.unavailable},
                                                   {"not_predicted", s.not_predicted},
                                                   {"wrong_output", s.wrong_output},
                                                   {"median_error", share(s.median)},
                                                   {"mean_error", share(s.mean)},
                                                   {"worst_error", share(s.worst)}};
  }
  return summary;
}

std::string json_report(const Recording& recording, const Machine& machine, const Report& report) {
  Json document = {{"gpu", recording.gpu},
                   {"machine", machine.name},
                   {"date", recording.date},
                   {"rows", rows_json(report)}};
  for (const RowGroup& set : viz::row_sets())
    document[set.key == "all" ? "summary" : "summary_" + set.key] = summary_json(report.rows, set);
  Json by = Json::object();
  for (const RowGroup& part : viz::row_parts(report.rows)) by[part.key][part.title] = summary_json(report.rows, part);
  document["summary_by"] = by;
  stamp(document);
  return json_text(document, -1);
}

std::string csv_report(const Report& report) {
  std::string text = "algorithm,problem,br,bc,hard,after_freeze,quantity,predicted,recorded,error,mark\n";
  const auto plain = [](const Json& value) {
    return value.is_null() ? "" : csv_field(value.is_string() ? value.get<std::string>() : value.dump());
  };
  for (const ValidatedRow& row : report.rows) {
    const RecordingRow& recorded = report.recorded[row.index];
    for (const auto& quantity : viz::quantities()) {
      const Json cell = value_json(row, quantity.which);
      text += formatted("{},{},{},{},{},{},{},{},{},{},{}\n", recorded.algorithm, csv_field(describe(recorded.problem)),
                        recorded.tile.br, recorded.tile.bc, row.hard ? 1 : 0, row.after_freeze ? 1 : 0,
                        viz::name_in_files(quantity.which), plain(cell["predicted"]), plain(cell["recorded"]),
                        plain(cell["error"]), plain(cell["mark"]));
    }
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

/// What the recording says it is compared with: a shipped description. (Only --gpu opens files.)
Machine machine_of(const Recording& recording, const Options& options) {
  const std::vector<std::string> names = machine_names();
  if (std::find(names.begin(), names.end(), recording.machine) != names.end()) return load_machine(recording.machine);
  std::string known;
  for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
  throw Error(ErrorKind::input, (options.recordings.empty() ? "the shipped recording" : options.recordings[0]) +
                                    ": machine: '" + recording.machine + "' is not one of " + known +
                                    "; --gpu NAME|FILE says what to predict for");
}

/// Told after the report, by the exit code: a kernel whose output is wrong agrees with nothing.
void require_right_outputs(const Report& report) {
  constexpr int kMostNamed = 3;
  int wrong = 0;
  std::string named;
  for (const ValidatedRow& row : report.rows) {
    if (row.wrong_output.empty() || ++wrong > kMostNamed) continue;
    named += formatted("{}rows[{}] ({}: {})", wrong == 1 ? "" : ", ", row.index, row.algorithm, row.wrong_output);
  }
  if (wrong > 0)
    throw Error(ErrorKind::verify,
                formatted("{} of {} recorded rows have a wrong output and were not compared: {}{}; measure them again",
                          wrong, report.rows.size(), named, wrong > kMostNamed ? ", …" : ""));
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
    if (!options.kernel.empty()) throw Error(ErrorKind::usage, "--launch says which launches: leave --kernel out");
    for (const std::string& id : split(options.launches, ',')) {
      if (std::any_of(chosen.begin(), chosen.end(), [&](const NcuLaunch& launch) { return launch.id == id; }))
        throw Error(ErrorKind::usage, "--launch: '" + id + "' is named twice");
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
  described.refuse_without_effect();
  const auto schedule = described.schedule();
  const Machine machine = described.machine();
  RecordingRow recorded;
  recorded.problem = schedule->problem();
  recorded.algorithm = schedule->algorithm();
  recorded.tile = schedule->tile();
  recorded.start = described.start;
  recorded.measured = launch.measured;
  kernels::Measurement& m = recorded.measured;  // whether the user's kernel is right is nothing that ncu knows
  for (kernels::Verification* v : {&m.o, &m.lse, &m.d_q, &m.d_k, &m.d_v}) v->passed = true;
  Report report = validated({recorded}, machine);
  ValidatedRow& row = report.rows[0];
  if (!row.refusal.empty()) throw Error(ErrorKind::unsupported, row.refusal);
  // ncu stops counting when the kernel ends, so what is then dirty in L2 is missing.
  ValidatedValue& writes = row.values[viz::place_of(MeasuredQuantity::hbm_write)];
  if (writes.standing == viz::Standing::counted && *writes.measured.value < writes.predicted &&
      *writes.measured.value + static_cast<double>(row.dirty_bytes) + viz::kByteAllowance >= writes.predicted)
    writes.standing = viz::Standing::not_drained;
  if (options.csv) return context.print(csv_report(report));
  if (options.json) {
    Json document = {{"ncu", {{"file", options.ncu}, {"launch", launch.id}, {"kernel", launch.kernel},
                              {"rounded_to_bytes", launch.rounded_to_bytes}}},
                     {"machine", machine.name},
                     {"rows", rows_json(report)}};
    stamp(document);
    return context.print(json_text(document, -1));
  }
  std::string text = formatted("{}, launch {}: {}\nPredicted for {}{}\n\n", options.ncu, launch.id, launch.kernel,
                               machine.title, launch.measured.sm_clock_mhz.value ? ", at the clock that ncu saw" : "");
  text += rows_text(report);
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
  const Machine machine = options.gpu.empty() ? machine_of(recording, options) : load_machine(options.gpu);
  const Report report = validated(recording.rows, machine);
  context.print(options.json  ? json_report(recording, machine, report)
                : options.csv ? csv_report(report)
                              : table_text(recording, machine, report));
  require_right_outputs(report);
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
