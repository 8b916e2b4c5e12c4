// Runs of lessons, from the command line's option names to the documents that expressions read.
#pragma once
#include <string>

#include "viz/core/lesson_runtime.h"

namespace flashscope {

/// What a lesson's numbers are of, where the lesson itself does not say it.
struct LessonGround {
  std::string gpu;        // of runs that name none: a shipped description or a machine file; empty: the default
  std::string recording;  // a file to take recorded values from; empty: those shipped
  bool is_given() const { return !gpu.empty() || !recording.empty(); }
};

/// Predicts as `simulate --json` does, attends as `attend --steps --json` does. Equal runs are predicted once. Throws
/// Error(usage) or Error(input) for a machine or a recording that cannot be read.
viz::LessonEngine make_lesson_engine(const LessonGround& ground = {});

}  // namespace flashscope
