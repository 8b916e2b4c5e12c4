// The stage of a lesson's show as a page has it: a still, drawn as SVG, of each run at the moment that the show names.
#pragma once
#include <string>

#include "viz/core/lesson_runtime.h"

namespace flashscope {

/// `show.has_stage()`. `point`: what to look at, as HTML. Throws what the window would show as its message.
std::string stage_html(const viz::OpenLesson& lesson, const LessonShow& show, const std::string& point);

}  // namespace flashscope
