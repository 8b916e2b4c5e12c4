// A lesson as one HTML page: text, values, questions with their answers folded away, and a picture of the stage for
// each show. It needs no network, no script and no file beside it.
#pragma once
#include <string>
#include <vector>

#include "viz/core/lesson_runtime.h"

namespace flashscope {

/// `notices`: what is missing from the page, for people.
std::string lesson_html(const viz::OpenLesson& lesson, const LessonLibrary& library, std::vector<std::string>& notices);

}  // namespace flashscope
