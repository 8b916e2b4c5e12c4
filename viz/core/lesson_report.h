// Answers of a file, graded: `lesson run`.
#pragma once
#include <string>

#include "viz/core/lesson_runtime.h"
#include "viz/io/json_fwd.h"

namespace flashscope::viz {

/// `answers`: by question id a text, a number, or a list of texts. The report is that of docs/file-formats.md; a score is
/// between 0 and 1, the whole that of the asks that count. Throws Error(input), with `file` in front, for an id that is
/// not in the lesson and for an answer of a wrong kind.
Json graded_report(const OpenLesson& lesson, const Json& answers, const std::string& file);

}  // namespace flashscope::viz
