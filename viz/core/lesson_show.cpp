#include "viz/core/lesson_show.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "sim/error.h"
#include "sim/schedule/algorithms.h"
#include "viz/io/json_numbers.h"
#include "viz/io/machine_io.h"

namespace flashscope::viz {
namespace {

[[noreturn]] void fail(const Lesson& lesson, const LessonShow& show, const std::string& text) {
  throw Error(ErrorKind::input, lesson.file + ":" + std::to_string(show.line) + ": " + text);
}

const RunFacts& run_of(const OpenLesson& open, const LessonShow& show, const std::string& name) {
  try {
    return open.run(name);
  } catch (const Error& error) {
    fail(open.lesson, show, std::string("runs: ") + error.what());
  }
}

const Settings& settings_of(const OpenLesson& open, const LessonShow& show, const std::string& name) {
  const RunFacts& run = run_of(open, show, name);
  if (!run.settings)
    fail(open.lesson, show, "runs: '" + name + "' attends to tensors of a file; this panel shows predicted runs");
  return *run.settings;
}

std::string name_of_operation(const TileOp& op) {
  const std::string name = name_of(op.op);
  return op.op == Op::load || op.op == Op::store ? name + " " + name_of(op.tensor) : name;
}

}  // namespace

Settings stage_settings(const OpenLesson& open, const LessonShow& show) {
  std::optional<Settings> settings;
  for (const std::string& name : show.runs) {
    const Settings& of_run = settings_of(open, show, name);
    if (!settings) {
      settings = of_run;
      continue;
    }
    Settings same = *settings;
    same.algorithms = of_run.algorithms;
    same.tile = of_run.tile;
    if (same != of_run)
      fail(open.lesson, show,
           "runs: '" + show.runs[0] + "' and '" + name +
               "' differ in more than algorithm and tile; one clock cannot show both");
    settings->tile = of_run.tile;
    settings->algorithms[1] = of_run.algorithms[0];
  }
  return *settings;
}

Picoseconds moment_of(const Lesson& lesson, const LessonShow& show, const StageTraces& traces) {
  if (show.at_end) return traces.back()->duration();
  if (show.operation.empty()) return 0;
  const StageTrace* found = traces.back().get();
  int kernel = -1;
  std::string names;
  for (const auto& candidate : traces) {
    const std::vector<KernelLaunch>& kernels = candidate->schedule().kernels();
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      if (kernels[k].name == show.kernel) kernel = static_cast<int>(k), found = candidate.get();
      names += (names.empty() ? "" : ", ") + std::string(kernels[k].name);
    }
  }
  const StageTrace& trace = *found;
  if (kernel < 0 && !show.kernel.empty()) fail(lesson, show, "kernel: '" + show.kernel + "' is not one of " + names);
  std::vector<std::string> there;
  for (const OpSpan& span : trace.spans()) {
    if ((kernel >= 0 && span.kernel != kernel) || span.cta != show.cta || span.reason == Reason::launch) continue;
    const std::string name = name_of_operation(span.op);
    if (std::find(there.begin(), there.end(), name) == there.end()) there.push_back(name);
    if (name != show.operation || (show.i >= 0 && span.op.i != show.i) || (show.j >= 0 && span.op.j != show.j))
      continue;
    return span.begin + static_cast<Picoseconds>(static_cast<double>(span.end - span.begin) * show.moment);
  }
  std::string list;
  for (const std::string& name : there) list += (list.empty() ? "" : ", ") + name;
  fail(lesson, show,
       "no operation '" + show.operation + "' with these tile indices in CTA " + std::to_string(show.cta) +
           (show.kernel.empty() ? "" : " of " + show.kernel) + "; it has " +
           (list.empty() ? "none (is it on the stage?)" : list));
}

std::vector<OccupancyRow> occupancy_of(const OpenLesson& open, const LessonShow& show) {
  std::vector<OccupancyRow> rows;
  for (const std::string& name : show.runs) {
    const Settings& settings = settings_of(open, show, name);
    const auto schedule = make_schedule(settings.algorithms[0], settings.problem, settings.tile);
    for (OccupancyRow row : occupancy_table(*schedule, load_machine(settings.gpu))) {
      row.kernel += ", Br = " + std::to_string(settings.tile.br) + ", Bc = " + std::to_string(settings.tile.bc);
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

SoftmaxChoice softmax_of(const OpenLesson& open, const LessonShow& show) {
  const std::string& name = show.runs[0];
  const Json& document = *run_of(open, show, name).document;
  const auto scores = document.find("scores");
  if (scores == document.end() || scores->empty())
    fail(open.lesson, show, "runs: '" + name + "' has no scores; the panel softmax shows a run with 'tensors'");
  SoftmaxChoice choice;
  choice.scores.clear();
  for (const Json& score : scores->at(0)) choice.scores.push_back(score.is_number() ? score.get<double>() : -HUGE_VAL);
  if (choice.scores.size() > static_cast<std::size_t>(kMostScores))
    fail(open.lesson, show,
         "runs: '" + name + "' has " + std::to_string(choice.scores.size()) +
             " keys; the panel softmax shows at most " + std::to_string(kMostScores));
  choice.bc = std::min<int>(document["tile"]["bc"].get<int>(), static_cast<int>(choice.scores.size()));
  const int tiles = (static_cast<int>(choice.scores.size()) + choice.bc - 1) / choice.bc;
  if (show.j >= tiles)
    fail(open.lesson, show,
         "j: '" + name + "' has " + std::to_string(tiles) + " key tiles; the last is " + std::to_string(tiles - 1));
  choice.tiles = show.j + 1;
  const auto run = std::find_if(open.lesson.runs.begin(), open.lesson.runs.end(),
                                [&](const LessonRun& r) { return r.name == name; });
  const auto order = run->options.find("kv-order");
  choice.backward = order != run->options.end() && order->second == "backward";
  return clamp(choice);
}

SweepChoice sweep_of(const OpenLesson& open, const LessonShow& show) {
  const auto find = [&](const auto& list, const char* key, const std::string& name) {
    if (const auto* entry = find_entry(list, name)) return entry->which;
    std::string names;
    for (const auto& entry : list) names += (names.empty() ? "" : ", ") + std::string(entry.key);
    fail(open.lesson, show, std::string(key) + ": '" + name + "' is not one of " + names);
  };
  return {find(sweep_overs(), "over", show.over), find(sweep_shows(), "quantity", show.quantity)};
}

}  // namespace flashscope::viz
