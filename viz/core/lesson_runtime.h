// A lesson opened: its runs predicted, its values computed, its questions ready to be graded. What fails becomes a
// fault with file and line and leaves the rest readable.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "viz/core/comparison.h"
#include "viz/core/lesson_answer.h"
#include "viz/core/settings.h"
#include "viz/core/stage_trace.h"
#include "viz/io/json_fwd.h"
#include "viz/io/lesson.h"
#include "viz/io/lesson_library.h"

namespace flashscope::viz {

/// What one run gave.
struct RunFacts {
  /// `simulate --json`, with `recorded` (the shipped recording's row), `machine` (values by key) and, in each kernel,
  /// `limited_by` and `shares` (of CTA time by reason); or `attend --steps --json`.
  std::shared_ptr<const Json> document;  // never null in an open lesson
  std::optional<Settings> settings;  // what the stage needs to show it; none for `attend`
  std::optional<WholeRun> whole;     // of a timed run
  std::shared_ptr<const std::vector<Recording>> recordings;  // where `recorded` was looked for; nullptr: nowhere
};

/// Gets the share done; false cancels with Error(internal, "cancelled").
using StillWanted = std::function<bool(double)>;

/// Predicts one run. Throws Error; it is given by who knows the command line's options (viz/cli/lesson_engine.h).
using LessonEngine = std::function<RunFacts(const LessonRun&, const LessonLibrary&, const StillWanted&)>;

struct OpenLesson {
  Lesson lesson;
  std::map<std::string, RunFacts> runs;
  std::map<std::string, std::string> values;  // text of {{ … }} → what is shown
  std::vector<Question> questions;            // one for each of lesson.asks
  std::set<std::string> pictures;             // files of the folder that images name, and that are there
  std::vector<std::string> faults;            // "03-streaming-softmax.md:41: …"

  /// Throws Error(input), saying whether there is no run of this name or it could not be predicted.
  const RunFacts& run(const std::string& name) const;
  /// What stands for {{ text }}.
  std::string value(const std::string& text) const;
  std::string plain(const LessonText& text) const;  // with values in their places
};

/// Never throws for what a lesson says; only when it was cancelled.
OpenLesson open_lesson(Lesson lesson, const LessonLibrary& library, const LessonEngine& engine,
                       const StillWanted& progress = {});

}  // namespace flashscope::viz
