// The window on a display: GLFW, the frame loop, keys, pictures.
#pragma once
#include <functional>

#include "viz/core/app_state.h"
#include "viz/io/lesson_library.h"

namespace flashscope::viz {

/// Runs until the window is closed. Throws Error(env) when there is no display or no OpenGL 3.3. Looks are those
/// remembered unless `looks_given`, and so is what is in front unless `layout_given`. `notice` is
/// told at the start when not empty. `read_recordings` is called once the first frame is seen: reading takes longer than
/// all that comes before it.
void run_window(AppState state, std::vector<Machine> machines, std::function<std::vector<Recording>()> read_recordings,
                LessonLibrary library, bool looks_given, bool layout_given, std::string notice = "");

/// Pixels per design unit for a frame of this size: what lets every panel fit, times what the looks ask for; `least`
/// keeps type readable on a small screen, where panels then scroll or give way. In steps, because fonts are rebuilt.
float scale_for(float width, float height, const Looks& looks = {}, float least = 0);

}  // namespace flashscope::viz
