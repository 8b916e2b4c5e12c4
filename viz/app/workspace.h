// One frame of the window: every panel in its place, for any size and any source of input.
#pragma once
#include <string>
#include <vector>

#include "viz/core/app_state.h"
#include "viz/core/lesson_session.h"
#include "viz/render/ui.h"

namespace flashscope::viz {

/// What a frame leads to.
struct FrameResult {
  AppState state;               // after what the user did in this frame
  std::vector<Action> actions;  // that are the window's own: undo, copy, save, quit
  bool measure = false;         // on the GPU of this machine
  bool confirm = false;         // run the whole problem however long it takes
  bool cancel = false;          // stop what is under way
  bool resume = false;          // go on with the validation or sweep in view, which was stopped
  bool question_waits = false;  // a field on the page waits for a number
  bool holding = false;         // a control is being dragged: what changes belongs to one change
};

/// Draws between ImGui::NewFrame() and ImGui::Render(), on a ground that has Palette::window already. `notice` stands
/// above everything when not empty. The Learn view is empty without `book`. `answering`: a field that waits for a
/// number gets the focus.
FrameResult draw_workspace(const Ui& ui, const Rect& window, const AppState& state, const Session& session,
                           const Results& results, const std::string& notice = "", const LessonBook* book = nullptr,
                           bool answering = false);

}  // namespace flashscope::viz
