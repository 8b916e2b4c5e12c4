// Runs of lessons, from the command line's option names to the documents that expressions read.
#pragma once
#include "viz/core/lesson_runtime.h"

namespace flashscope {

/// Predicts as `simulate --json` does, attends as `attend --steps --json` does. Equal runs are predicted once.
viz::LessonEngine make_lesson_engine();

}  // namespace flashscope
