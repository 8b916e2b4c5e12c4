// What a lesson's show puts beside the text: the stage at one moment of a run, or an inspector with the run's numbers.
#pragma once
#include <memory>
#include <vector>

#include "viz/core/lesson_runtime.h"
#include "viz/core/occupancy_table.h"
#include "viz/core/settings.h"
#include "viz/core/softmax_steps.h"
#include "viz/core/stage_trace.h"
#include "viz/core/sweep.h"

namespace flashscope::viz {

/// Settings of the stage for a show; throws Error(input) when its runs do not exist or do not share a problem.
Settings stage_settings(const OpenLesson& lesson, const LessonShow& show);

using StageTraces = std::vector<std::shared_ptr<const StageTrace>>;
/// When the stage reaches what the show names, in the run that has its kernel, or in the last where it names none.
/// `traces`: of the show's runs. Throws Error(input) with file, line and what there is instead.
Picoseconds moment_of(const Lesson& lesson, const LessonShow& show, const StageTraces& traces);

/// What the CTAs of each run occupy on an SM, named by algorithm and tile. Throws Error(input) like stage_settings().
std::vector<OccupancyRow> occupancy_of(const OpenLesson& lesson, const LessonShow& show);

/// The scores of a run that attends to tensors of a file: its first query, in the order in which its tiles are read.
/// `j` of the show is the last tile done; without it none is. Throws Error(input).
SoftmaxChoice softmax_of(const OpenLesson& lesson, const LessonShow& show);

/// What the panel sweep goes over and draws. Throws Error(input) with the line for a name it does not know.
SweepChoice sweep_of(const OpenLesson& open, const LessonShow& show);

}  // namespace flashscope::viz
