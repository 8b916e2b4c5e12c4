// flashscope measure: run kernels on the GPU here. Check first, then time and count, and show the prediction beside it.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "sim/error.h"
#include "sim/schedule/algorithms.h"
#include "viz/cli/command.h"
#include "viz/cli/describe.h"
#include "viz/cli/format.h"
#include "viz/cli/ladder.h"
#include "viz/cli/options.h"
#include "viz/cli/problem_list.h"
#include "viz/cli/problem_options.h"
#include "viz/cli/table.h"
#include "viz/cli/today.h"
#include "viz/io/block_mask_io.h"
#include "viz/io/files.h"
#include "viz/io/json_numbers.h"
#include "viz/io/prediction_io.h"
#include "viz/io/recording.h"
#include "viz/io/version.h"

namespace flashscope {
namespace {

struct Options {
  ProblemOptions shared;
  std::vector<std::string> algorithms;  // empty: all
  std::string problems, record;
  bool require_counters = false, json = false, ladder = false;
  kernels::MeasureOptions measure;
};

/// One run to make: a rung on a problem.
struct Task {
  ProblemOptions options;
  bool asked_for = false;  // by name: that it cannot run here is an error then
};

/// What came of a task.
struct Outcome {
  const Task* task;
  std::unique_ptr<Schedule> schedule;
  std::optional<kernels::Measurement> measured;
  std::optional<Prediction> predicted;  // at the clock of the measurement
  std::string refusal;                  // why not measured, or why not predicted
};

void add_tasks(const ProblemOptions& problem, const std::vector<std::string>& names, std::vector<Task>& tasks) {
  const bool all = names.empty() || (names.size() == 1 && names[0] == "all");
  const auto add = [&](const std::string& name) {
    ProblemOptions options = problem;
    set_problem_option(options, "algorithm", name);
    options.problem();  // contradictions show before anything runs
    tasks.push_back({options, !all});
  };
  if (all)
    for (const Algorithm& algorithm : algorithms(problem.pass)) add(algorithm.name);
  else
    for (const std::string& name : names) add(name);
}

/// The recording to add to: what the file holds already, or a new one. A file that cannot be read stays as it is.
Recording open_recording(const std::string& path, const kernels::DeviceInfo& info, const Machine& machine) {
  Recording recording;
  if (std::filesystem::exists(path)) {
    recording = load_recording(path);
    if (recording.gpu != info.name)
      throw Error(ErrorKind::usage, "--record: " + path + " holds rows of " + recording.gpu + ", and this is " +
                                        info.name + "; name another file");
    if (recording.machine != machine.name)
      throw Error(ErrorKind::usage,
                  "--record: " + path + " is compared with --gpu " + recording.machine + ", not " + machine.name);
  }
  recording.gpu = info.name;
  recording.machine = machine.name;
  recording.driver = info.driver_version;
  recording.cuda = info.cuda_version;
  recording.sm_clock_mhz = info.sm_clock_mhz;
  recording.memory_clock_mhz = info.memory_clock_mhz;
  recording.date = today();
  recording.protocol =
      "Output checked against float64 first. Time: median over launches, each after a flush of L2, minus the median of "
      "an "
      "empty kernel. Bytes: hardware counters over the run alone, L2 cold; HBM writes from a second range in which a "
      "read-only sweep drains dirty lines, minus what the sweep alone writes; both minus what the GPU moves by itself in the time.";
  set_writer(recording);
  return recording;
}

bool has_counters(const kernels::Measurement& m) {
  return m.sm_read_bytes.value && m.sm_write_bytes.value && m.hbm_read_bytes.value && m.hbm_write_bytes.value;
}

std::string refusal_of_counters(const kernels::Measurement& m) {
  for (const auto* bytes : {&m.sm_read_bytes, &m.sm_write_bytes, &m.hbm_read_bytes, &m.hbm_write_bytes})
    if (!bytes->value) return bytes->reason;
  return "";
}

std::string rows_text(const Outcome& outcome) {
  using enum Table::Align;
  const kernels::Measurement& m = *outcome.measured;
  std::string text = formatted("{}: {}; {}\n", outcome.schedule->algorithm(), describe(outcome.schedule->problem()),
                               describe(outcome.schedule->tile()));
  const auto verified = [](const std::string& name, const kernels::Verification& v) {
    return formatted("{} {}: max |error| {:.3g}, mean {:.3g}, {:.0f} % of its tolerance", name,
                     v.passed ? "right" : "WRONG", v.max_abs, v.mean_abs, 100 * v.tolerance_used);
  };
  std::string checks;
  for (const auto& [name, v] : kernels::verifications(m, outcome.schedule->problem().pass))
    checks += (checks.empty() ? "  " : "; ") + verified(name, v);
  text += checks + "\n";
  Table table({left, right, right, right, left});
  table.row({"", "predicted", "measured", "error", ""});
  const std::string none = "not predicted";
  const auto bytes = [&](const char* name, std::optional<std::int64_t> predicted,
                         const kernels::Measured<std::int64_t>& measured) {
    const std::string error = predicted && measured.value
                                  ? error_text(static_cast<double>(*predicted), static_cast<double>(*measured.value))
                                  : "";
    table.row({name, predicted ? grouped(*predicted) + " B" : none,
               measured.value ? grouped(*measured.value) + " B" : "unavailable", error, measured.reason});
  };
  std::optional<std::int64_t> sm_read, sm_write, hbm_read, hbm_write;
  if (outcome.predicted) {
    const PredictedQuantities p = quantities_of(*outcome.predicted);
    sm_read = p.sm_read_bytes;
    sm_write = p.sm_write_bytes;
    hbm_read = p.hbm_read_bytes;
    hbm_write = p.hbm_write_bytes;
  }
  bytes("SM reads", sm_read, m.sm_read_bytes);
  bytes("SM writes", sm_write, m.sm_write_bytes);
  bytes("HBM reads", hbm_read, m.hbm_read_bytes);
  bytes("HBM writes + dirty", hbm_write, m.hbm_write_bytes);
  const std::string predicted_us = outcome.predicted ? grouped_decimal(outcome.predicted->time_us(), 1) + " µs" : none;
  if (m.time_us.value) {
    table.row({"time", predicted_us, grouped_decimal(*m.time_us.value, 1) + " µs",
               outcome.predicted ? error_text(outcome.predicted->time_us(), *m.time_us.value) : "",
               formatted("spread {} µs over {} launches", grouped_decimal(m.time_spread_us, 1), m.launches)});
    const std::int64_t flops = attention_flops(outcome.schedule->problem());
    table.row({"TFLOP/s of kept pairs", outcome.predicted ? tflops_text(flops, outcome.predicted->time_us()) : none,
               tflops_text(flops, *m.time_us.value)});
  } else {
    table.row({"time", predicted_us, "unavailable", "", m.time_us.reason});
  }
  text += table.text();
  if (!outcome.refusal.empty()) text += "  not predicted: " + outcome.refusal + "\n";
  return text + "\n";
}

Json verification_json(const kernels::Verification& v) {
  return {{"passed", v.passed},
          {"max_abs", json_number(v.max_abs)},
          {"mean_abs", json_number(v.mean_abs)},
          {"tolerance_used", json_number(v.tolerance_used)},
          {"nonfinite", v.nonfinite}};
}

Json outcome_json(const Outcome& outcome, const Machine& machine) {
  Json object = {{"algorithm", outcome.schedule->algorithm()},
                 {"pass", name_of(outcome.schedule->problem().pass)},
                 {"problem", problem_to_json(outcome.schedule->problem())}};
  if (!outcome.measured) {
    object["measured"] = "unavailable (" + outcome.refusal + ")";
    return object;
  }
  const kernels::Measurement& m = *outcome.measured;
  object["o"] = verification_json(m.o);
  object["lse"] = verification_json(m.lse);
  if (outcome.schedule->problem().pass == Pass::backward) {
    object["d_q"] = verification_json(m.d_q);
    object["d_k"] = verification_json(m.d_k);
    object["d_v"] = verification_json(m.d_v);
  }
  object["measured"] = {{"time_us", measured_json(m.time_us)},
                        {"time_spread_us", json_number(m.time_spread_us)},
                        {"launches", m.launches},
                        {"sm_clock_mhz", measured_json(m.sm_clock_mhz)},
                        {"sm_read_bytes", measured_json(m.sm_read_bytes)},
                        {"sm_write_bytes", measured_json(m.sm_write_bytes)},
                        {"hbm_read_bytes", measured_json(m.hbm_read_bytes)},
                        {"hbm_write_bytes", measured_json(m.hbm_write_bytes)},
                        {"hbm_write_floor_bytes", measured_json(m.hbm_write_floor_bytes)},
                        {"hbm_background_read_bytes", measured_json(m.hbm_background_read_bytes)},
                        {"hbm_background_write_bytes", measured_json(m.hbm_background_write_bytes)}};
  object["predicted"] = outcome.predicted
                            ? prediction_to_json(*outcome.schedule, machine, Start::cold, *outcome.predicted)
                            : Json("unavailable (" + outcome.refusal + ")");
  return object;
}

std::string ladder_of(const std::vector<Outcome>& outcomes, const Machine& machine) {
  std::vector<LadderRow> rows;
  for (const Outcome& outcome : outcomes) {
    LadderRow row{outcome.schedule.get(), outcome.measured ? &*outcome.measured : nullptr, {}, outcome.refusal};
    if (outcome.predicted) row.predicted = quantities_of(*outcome.predicted);
    rows.push_back(std::move(row));
  }
  return describe(outcomes.front().schedule->problem()) + "\n" + ladder_text(rows, machine);
}

/// Measures one task. What the GPU itself cannot do any more (Error(env)) ends the whole run; the rest is this row's.
Outcome measure_task(const Task& task, kernels::Device& device, const Machine& machine, const Options& options,
                     std::optional<Error>& failure) {
  Outcome outcome = {&task, task.options.schedule(), {}, {}, ""};
  const auto refuse = [&](const Error& error, bool is_failure) {
    outcome.refusal = error.what();
    if (is_failure && !failure) failure = error;
  };
  const std::string why = device.why_unsupported(*outcome.schedule);
  if (!why.empty()) {
    refuse(Error(ErrorKind::unsupported, outcome.schedule->algorithm() + ": " + why), task.asked_for);
    return outcome;
  }
  try {
    outcome.measured = device.measure(*outcome.schedule, options.measure);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::env || error.kind() == ErrorKind::internal) throw;
    refuse(error, true);
    return outcome;
  }
  for (const auto& [name, v] : kernels::verifications(*outcome.measured, outcome.schedule->problem().pass))
    if (!v.passed && options.measure.check && !failure)
      failure = Error(ErrorKind::verify, outcome.schedule->algorithm() + ": " + name +
                                             " differs from the float64 reference, at " + v.worst);
  try {
    outcome.predicted = simulate(*outcome.schedule, at_measured_clock(machine, *outcome.measured), {});
  } catch (const Error& error) {  // the machine of --gpu is smaller than the GPU here
    outcome.refusal = error.what();
  }
  return outcome;
}

void measure(const Options& options, Context& context) {
  std::vector<Task> tasks;
  if (options.problems.empty())
    add_tasks(options.shared, options.algorithms, tasks);
  else
    for (const ListedProblem& listed : read_problem_list(options.problems, options.shared))
      try {
        add_tasks(listed.options, listed.algorithms, tasks);
      } catch (const Error& error) {
        throw Error(ErrorKind::input, listed.place + error.what());
      }

  const Machine machine = options.shared.machine();
  const auto device = context.open_device();
  const kernels::DeviceInfo info = device->info();
  std::optional<Recording> recording;
  if (!options.record.empty()) {
    for (const Task& task : tasks)
      if (const std::string& mask = task.options.block_mask; !mask.empty() && !is_block_preset(mask))
        throw Error(ErrorKind::unsupported,
                    "--record: a recording names its block masks, and '" + mask + "' is a file; use a preset");
    recording = open_recording(options.record, info, machine);
  }
  if (machine.title.find(info.name) == std::string::npos)
    context.note(formatted("flashscope: measured on {}, predicted for {}; --gpu chooses the prediction\n", info.name,
                           machine.title));

  std::optional<Error> failure;
  std::string refused_counters;
  int measured = 0;
  Json rows = Json::array();
  std::vector<Outcome> ladder;
  for (std::size_t k = 0; k < tasks.size(); ++k) {
    context.note(formatted("[{}/{}] {}\n", k + 1, tasks.size(), tasks[k].options.algorithm));
    Outcome outcome = measure_task(tasks[k], *device, machine, options, failure);
    if (outcome.measured) {
      ++measured;
      if (!has_counters(*outcome.measured)) refused_counters = refusal_of_counters(*outcome.measured);
      // Saved row by row: an hour of measuring is not lost to its last minute.
      const auto checks = kernels::verifications(*outcome.measured, outcome.schedule->problem().pass);
      const bool all_right = std::all_of(checks.begin(), checks.end(), [](const auto& c) { return c.second.passed; });
      if (recording && all_right) {
        RecordingRow row = {outcome.schedule->problem(), outcome.schedule->algorithm(), outcome.schedule->tile(),
                            Start::cold, *outcome.measured, {}};
        if (outcome.predicted) row.predicted = quantities_of(*outcome.predicted);
        put_row(*recording, std::move(row));
        save_recording(options.record, *recording);
      }
    }
    if (options.json)
      rows.push_back(outcome_json(outcome, machine));
    else if (options.ladder)
      ladder.push_back(std::move(outcome));
    else
      context.print(outcome.measured ? rows_text(outcome) : "unavailable: " + outcome.refusal + "\n\n");
  }
  if (options.json) {
    Json document = {{"gpu", info.name},
                     {"driver", info.driver_version},
                     {"cuda", info.cuda_version},
                     {"machine", machine.name},
                     {"rows", rows}};
    stamp(document);
    context.print(json_text(document, -1));
  }
  if (!ladder.empty()) context.print(ladder_of(ladder, machine));
  if (failure) throw *failure;
  if (measured == 0 && !tasks.empty())
    throw Error(ErrorKind::unsupported,
                "none of the " + std::to_string(tasks.size()) + " runs is possible on " + info.name);
  if (options.require_counters && !refused_counters.empty())
    throw Error(ErrorKind::env, "--require-counters: " + refused_counters);
}

}  // namespace

Action declare_measure(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  ProblemOptionSet set;
  set.algorithm = set.start = set.residency = false;
  set.dtypes = {"fp32", "fp16", "bf16"};
  add_problem_options(app, options->shared, set);
  add_texts(app, "--algorithm", "NAME", "a rung, or all; may be given more than once (all)", options->algorithms);
  add_text(app, "--problems", "FILE", "JSON list of problems: {option: value, …, \"algorithms\": […]}",
           options->problems);
  add_text(app, "--record", "FILE", "add the rows to this recording", options->record);
  add_flag(app, "--require-counters", "exit 4 when the byte counters are refused", options->require_counters);
  add_integer(app, "--launches", 20, 100'000, "timed launches (20)",
              [options](std::int64_t value) { options->measure.launches = static_cast<int>(value); });
  add_integer(app, "--seed", 0, UINT32_MAX, "of the random inputs (1)",
              [options](std::int64_t value) { options->measure.seed = static_cast<std::uint32_t>(value); });
  add_flag(app, "--json", "all rows as one JSON object, at the end", options->json);
  add_flag(app, "--ladder", "one table at the end, a line for each rung on the problem", options->ladder);
  return [options](Context& context) {
    if (!options->problems.empty() && !options->algorithms.empty())
      throw Error(ErrorKind::usage, "--algorithm: not with --problems, whose entries name their own");
    if (options->ladder && (options->json || !options->problems.empty()))
      throw Error(ErrorKind::usage, "--ladder: one problem as a table, so not with --problems or --json");
    measure(*options, context);
  };
}

}  // namespace flashscope
