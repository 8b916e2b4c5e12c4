#include "viz/cli/lesson_engine.h"

#include <memory>
#include <utility>
#include <vector>

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
Json json_of(const kernels::Measured<T>& value) {
  return value.value ? Json(*value.value) : Json("unavailable (" + value.reason + ")");
}

/// What recordings say of the runs: those shipped, or one of the user's in their place.
class Recorded {
 public:
  explicit Recorded(const std::string& file) : m_is_own(!file.empty()) {
    if (m_is_own) m_recordings = std::make_shared<const std::vector<Recording>>(1, load_recording(file));
  }

  /// Those shipped are read at the first call: it takes a while, and a lesson may ask for none.
  std::shared_ptr<const std::vector<Recording>> recordings() {
    if (!m_recordings) {
      std::vector<Recording> shipped;
      for (const std::string& name : recording_names()) shipped.push_back(shipped_recording(name));
      m_recordings = std::make_shared<const std::vector<Recording>>(std::move(shipped));
    }
    return m_recordings;
  }

  /// The values of this run on this machine, each with the reason where it is absent.
  Json values(const Machine& machine, const Schedule& schedule, Start start) {
    const Recording* recording = nullptr;
    const RecordingRow* row = nullptr;
    for (const Recording& other : *recordings()) {
      if (row || other.machine != machine.name) continue;
      recording = &other;
      row = find_row(other, schedule.problem(), schedule.algorithm(), schedule.tile(), start);
    }
    const std::string reason = recording ? "the recording of " + machine.name + " has no row for this run"
                               : m_is_own
                                   ? "the recording is of " + m_recordings->front().machine + ", not of " + machine.name
                                   : "no recording of " + machine.name + " is shipped";
    Json values;
    const auto add = [&](const char* key, auto value_of) {
      if (row)
        values[key] = value_of(row->measured);
      else
        values[key] = "unavailable (" + reason + ")";
    };
    using M = kernels::Measurement;
    add("gpu", [&](const M&) { return recording->gpu; });
    add("date", [&](const M&) { return recording->date; });
    add("time_us", [](const M& m) { return json_of(m.time_us); });
    add("time_spread_us", [](const M& m) { return m.time_spread_us; });
    add("launches", [](const M& m) { return m.launches; });
    add("sm_clock_mhz", [](const M& m) { return json_of(m.sm_clock_mhz); });
    add("max_abs_error", [](const M& m) { return m.o.max_abs; });
    add("sm_read_bytes", [](const M& m) { return json_of(m.sm_read_bytes); });
    add("sm_write_bytes", [](const M& m) { return json_of(m.sm_write_bytes); });
    add("hbm_read_bytes", [](const M& m) { return json_of(m.hbm_read_bytes); });
    add("hbm_write_bytes", [](const M& m) { return json_of(m.hbm_write_bytes); });
    add("hbm_write_floor_bytes", [](const M& m) { return json_of(m.hbm_write_floor_bytes); });
    return values;
  }

 private:
  bool m_is_own;
  std::shared_ptr<const std::vector<Recording>> m_recordings;  // nullptr until they are read
};

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

RunFacts predict(const LessonRun& run, const std::string& gpu, Recorded& recorded,
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
  document["recorded"] = recorded.values(machine, *schedule, options.start);
  facts.recordings = recorded.recordings();
  if (run.timed)
    facts.whole =
        viz::WholeRun{kernels::Measured<KernelCount>::of(prediction.count), schedule->closed_form(),
                      compulsory_bytes(schedule->problem()), kernels::Measured<Prediction>::of(std::move(prediction))};
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
  // Every score and the state after every tile is kept, for expressions to read.
  constexpr double kMostProducts = 1 << 24;
  const double products = 1.0 * problem.batch * problem.heads * problem.seqlen_q * problem.seqlen_k * problem.head_dim;
  if (products > kMostProducts)
    throw Error(ErrorKind::input,
                run.tensors +
                    ": batch × heads × rows of q × rows of k × head_dim is more than 16777216, the most "
                    "that a lesson attends to");
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
  const auto recorded = std::make_shared<Recorded>(ground.recording);
  // Lessons repeat each other's runs, and a lesson is opened again and again.
  auto known = std::make_shared<std::map<std::string, RunFacts>>();
  return [known, gpu, recorded](const LessonRun& run, const LessonLibrary& library, const viz::StillWanted& wanted) {
    if (!run.tensors.empty()) return attend(run, library);
    std::string key = run.timed ? "timed" : "counted";
    for (const auto& [name, text] : run.options) key += " --" + name + " " + text;
    const auto found = known->find(key);
    if (found != known->end()) return found->second;
    return (*known)[key] = predict(run, gpu, *recorded, wanted);
  };
}

}  // namespace flashscope
