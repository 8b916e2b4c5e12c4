// The inspectors of a lesson's shows as a page has them: plots as pictures, the rest as tables. The stage is drawn in
// lesson_html_stage.cpp.
#pragma once
#include <string>

#include "viz/core/figure.h"
#include "viz/core/lesson_runtime.h"

namespace flashscope {

/// What stands in place of the stage, or, of the panel bytes, below it. Throws what the panel of the window would show
/// as its message.
std::string inspector_html(const viz::OpenLesson& lesson, const LessonShow& show);

/// A plot, 660 units wide; colours are the page's variables --left, --right, --dim, --line.
std::string figure_svg(const viz::Figure& figure);

}  // namespace flashscope
