#include "viz/cli/lesson_engine.h"

#include <memory>

#include "sim/compute/compute.h"
#include "sim/count/count.h"
#include "sim/error.h"
#include "sim/schedule/algorithms.h"
#include "viz/cli/problem_options.h"
#include "viz/io/attend_io.h"
#include "viz/io/json_numbers.h"
#include "viz/io/machine_io.h"
#include "viz/io/prediction_io.h"
#include "viz/io/recording.h"

namespace flashscope {
namespace {

using viz::RunFacts;

Json values_of(const Machine& machine) {
  Json values = {{"name", machine.name}, {"title", machine.title}};
  const Json all = machine_to_json(machine);
  for (const MachineField& field : machine_fields()) values[field.key] = all[field.key]["value"];
  return values;
}

template <class T>
Json measured(const kernels::Measured<T>& value) {
  return value.value ? Json(*value.value) : Json("unavailable (" + value.reason + ")");
}

/// What the recording of this machine says about the run, or the reason why each value is absent. `own`: a recording to
/// look in instead of those shipped, or nullptr.
Json recorded(const Machine& machine, const Schedule& schedule, Start start, const Recording* own) {
  std::string reason = own ? "the recording is of " + own->machine + ", not of " + machine.name
                           : "no recording of " + machine.name + " is shipped";
  std::vector<Recording> recordings;
  if (own)
    recordings.push_back(*own);
  else
    for (const std::string& name : recording_names()) recordings.push_back(shipped_recording(name));
  for (const Recording& recording : recordings) {
    if (recording.machine != machine.name) continue;
    if (const RecordingRow* row = find_row(recording, schedule.problem(), schedule.algorithm(), schedule.tile(), start))
      return {{"gpu", recording.gpu},
              {"date", recording.date},
              {"time_us", measured(row->measured.time_us)},
              {"time_spread_us", row->measured.time_spread_us},
              {"launches", row->measured.launches},
              {"sm_clock_mhz", measured(row->measured.sm_clock_mhz)},
              {"max_abs_error", row->measured.o.max_abs},
              {"sm_read_bytes", measured(row->measured.sm_read_bytes)},
              {"sm_write_bytes", measured(row->measured.sm_write_bytes)},
              {"hbm_read_bytes", measured(row->measured.hbm_read_bytes)},
              {"hbm_write_bytes", measured(row->measured.hbm_write_bytes)},
              {"hbm_write_floor_bytes", measured(row->measured.hbm_write_floor_bytes)}};
    reason = "the recording of " + machine.name + " has no row for this run";
  }
  Json none;
  for (const char* key :
       {"gpu", "date", "time_us", "time_spread_us", "launches", "sm_clock_mhz", "max_abs_error", "sm_read_bytes",
        "sm_write_bytes", "hbm_read_bytes", "hbm_write_bytes", "hbm_write_floor_bytes"})
    none[key] = "unavailable (" + reason + ")";
  return none;
}

void add_kernel_facts(Json& document, const Prediction& prediction) {
  for (std::size_t k = 0; k < prediction.kernels.size(); ++k) {
    const KernelPrediction& kernel = prediction.kernels[k];
    Json& facts = document["kernels"][k];
    facts["limited_by"] = kernel.occupancy_limit;
    for (int r = 0; r < kNumReasons; ++r)
      facts["shares"][name_of(static_cast<Reason>(r))] =
          kernel.cta_time
              ? static_cast<double>(kernel.reasons[static_cast<std::size_t>(r)]) / static_cast<double>(kernel.cta_time)
              : 0.0;
  }
}

viz::Settings settings_of(const ProblemOptions& options, const Schedule& schedule) {
  viz::Settings settings;
  settings.problem = schedule.problem();
  settings.tile = schedule.tile();
  settings.algorithms = {schedule.algorithm(), schedule.algorithm()};
  settings.gpu = options.gpu;  // by which it is found again, also where it is a file
  settings.start = options.start;
  return settings;
}

/// Options whose value may be a file: a lesson names what is shipped, and reads nothing outside its folder.
void refuse_files(const std::string& name, const std::string& text) {
  if (name == "gpu" && (text.find('/') != std::string::npos || text.find('.') != std::string::npos))
    throw Error(ErrorKind::input, "gpu: a lesson takes a shipped description by its name, not a file");
  if (name != "block-mask") return;
  const std::string preset = text.substr(0, text.find(':'));
  const bool plain = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789.:") == std::string::npos;
  if (!plain || (preset != "local" && preset != "strided" && preset != "butterfly" && preset != "random"))
    throw Error(
        ErrorKind::input,
        "block-mask: a lesson takes a preset (local, strided, butterfly or random as NAME:DENSITY:SEED), not a file");
}

RunFacts predict(const LessonRun& run, const std::string& gpu, const Recording* recording,
                 const viz::StillWanted& still_wanted) {
  ProblemOptions options;
  if (!gpu.empty()) options.gpu = gpu;
  for (const auto& [name, text] : run.options) {
    refuse_files(name, text);
    set_problem_option(options, name, text);
  }
  const auto schedule = options.schedule();
  const Machine machine = options.machine();
  RunFacts facts;
  facts.settings = settings_of(options, *schedule);
  Prediction prediction;
  if (run.timed) {
    RunOptions run_options;
    run_options.start = options.start;
    run_options.progress = still_wanted;
    prediction = simulate(*schedule, machine, run_options);
  } else {
    prediction.count = count(*schedule, still_wanted).total;
    prediction.simulated_heads = schedule->problem().num_heads();
  }
  Json document = prediction_to_json(*schedule, machine, options.start, prediction);
  if (run.timed) {
    add_kernel_facts(document, prediction);
  } else {
    // What only a timed run knows must not stand there as 0.
    for (const char* key : {"time_us", "hbm_read_bytes", "hbm_write_bytes", "hbm_dirty_bytes", "tensors", "kernels"})
      document.erase(key);
    document["tile"].erase("ctas_per_sm");
  }
  document["machine"] = values_of(machine);
  document["recorded"] = recorded(machine, *schedule, options.start, recording);
  facts.document = std::make_shared<const Json>(std::move(document));
  return facts;
}

RunFacts attend(const LessonRun& run, const LessonLibrary& library) {
  AttendInput input = attend_input_from_json(library.text(run.tensors), run.tensors);
  ProblemOptions options;
  options.dtype = DType::fp64;
  bool backward_keys = false;
  for (const auto& [name, text] : run.options) {
    if (name == "kv-order") {
      if (text != "forward" && text != "backward")
        throw Error(ErrorKind::usage, "kv-order: '" + text + "' is not one of forward, backward");
      backward_keys = text == "backward";
    } else if (name == "algorithm" || name == "br" || name == "bc" || name == "splits" || name == "dtype" ||
               name == "causal" || name == "window") {
      set_problem_option(options, name, text);
    } else {
      throw Error(ErrorKind::usage, "'" + name +
                                        "' means nothing for tensors of a file; algorithm, br, bc, splits, dtype, "
                                        "causal, window, kv-order do");
    }
  }
  AttentionProblem problem = input.problem;
  problem.dtype = options.dtype;
  problem.causal = options.causal;
  if (options.window) {
    problem.window_left = options.window->first;
    problem.window_right = options.window->second;
  }
  problem.dense_mask = input.inputs.keep.heads > 0;
  validate(problem);
  TileShape tile = options.tile;
  tile.backward_keys = backward_keys;
  const auto schedule = make_schedule(options.algorithm, problem, tile);
  RunFacts facts;
  Json steps = Json::array();
  ComputeOptions compute_options;
  compute_options.after_tile = [&](const TileState& state) { steps.push_back(tile_state_to_json(state)); };
  const AttentionOutputs outputs = compute(*schedule, input.inputs, compute_options);
  const AttentionOutputs reference = reference_attention(problem, input.inputs);
  const auto error_json = [](const OutputError& error) -> Json {
    return {{"max_abs", json_number(error.max_abs)}, {"mean_abs", json_number(error.mean_abs)}};
  };
  Json document;
  document["algorithm"] = schedule->algorithm();
  document["problem"] = problem_to_json(problem);
  document["tile"] = tile_to_json(schedule->tile());
  document["o"] = nested_lists(outputs.o, problem.batch, problem.heads);
  document["lse"] = nested_row_lists(outputs.lse, problem.batch, problem.heads);
  document["reference"]["o"] = nested_lists(reference.o, problem.batch, problem.heads);
  document["reference"]["lse"] = nested_row_lists(reference.lse, problem.batch, problem.heads);
  document["errors"]["o"] = error_json(error_of(outputs.o, reference.o));
  document["errors"]["lse"] = error_json(error_of(outputs.lse, reference.lse));
  document["steps"] = std::move(steps);
  // The scores themselves, to be read beside m and l: one row a query of the first head.
  Json scores = Json::array();
  for (int i = 0; i < problem.seqlen_q; ++i) {
    Json row = Json::array();
    for (int j = 0; j < problem.seqlen_k; ++j) {
      double sum = 0;
      for (int c = 0; c < problem.head_dim; ++c) sum += input.inputs.q.at(0, i, c) * input.inputs.k.at(0, j, c);
      row.push_back(json_number(sum * problem.scale()));
    }
    scores.push_back(std::move(row));
  }
  document["scores"] = std::move(scores);
  facts.document = std::make_shared<const Json>(std::move(document));
  return facts;
}

}  // namespace

viz::LessonEngine make_lesson_engine(const LessonGround& ground) {
  std::string gpu = ground.gpu;
  if (!gpu.empty()) load_machine(gpu);  // what is wrong with it is the user's, not each lesson's
  std::shared_ptr<const Recording> recording;
  if (!ground.recording.empty()) recording = std::make_shared<const Recording>(load_recording(ground.recording));
  // Lessons repeat each other's runs, and a lesson is opened again and again.
  auto known = std::make_shared<std::map<std::string, RunFacts>>();
  return [known, gpu, recording](const LessonRun& run, const LessonLibrary& library,
                                 const viz::StillWanted& still_wanted) {
    if (!run.tensors.empty()) return attend(run, library);
    std::string key = run.timed ? "timed" : "counted";
    for (const auto& [name, text] : run.options) key += " --" + name + " " + text;
    const auto found = known->find(key);
    if (found != known->end()) return found->second;
    return (*known)[key] = predict(run, gpu, recording.get(), still_wanted);
  };
}

}  // namespace flashscope
