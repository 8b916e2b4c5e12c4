// The Learn panel.
#pragma once
#include <string>

#include "viz/core/lesson_page.h"
#include "viz/core/lesson_session.h"
#include "viz/render/ui.h"

namespace flashscope::viz {

/// The list of lessons, or the step that the state names. `fault`: why the step's show cannot be shown, or "". True
/// where a question waits for a number; `answering` gives its field the focus.
bool lesson_panel(const Ui& ui, const Rect& area, LearnState& state, const LessonBook& book, const std::string& fault,
                  bool answering = false);

}  // namespace flashscope::viz
