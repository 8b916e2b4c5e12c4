// The panels of the window. Each draws a part of the state into its rectangle; those that take AppState& also change
// what the user changes. None keeps anything between frames.
#pragma once
#include <vector>

#include "viz/core/app_state.h"
#include "viz/core/comparison.h"
#include "viz/core/scene.h"
#include "viz/render/ui.h"

namespace flashscope::viz {

/// Problem, tile, algorithms and GPU as controls; every number is clamped before it reaches the state.
void controls_panel(const Ui& ui, const Rect& area, AppState& state, const std::vector<Machine>& machines);

/// One algorithm at one instant: HBM, L2, links, SMs, counters.
void stage_panel(const Ui& ui, const Rect& area, const char* name, const StageTrace& trace, const Scene& scene);
/// In place of a stage that could not be made, or is not there yet.
void stage_message(const Ui& ui, const Rect& area, const char* name, const std::string& title, const std::string& text);

/// Play, pause, step, speed; the clock; the timeline of SM 0 for both algorithms, which is also where one scrubs.
void timeline_panel(const Ui& ui, const Rect& area, AppState& state, const Results& results);

/// What the user asked of the session by a button.
enum class Request { none, confirm, cancel };
/// Predicted beside recorded, for both algorithms.
Request comparison_panel(const Ui& ui, const Rect& area, const Results& results,
                         const std::vector<Comparison>& comparisons);

/// Keys, and what shades and colours mean; over everything else.
void help_panel(const Ui& ui, const Rect& window, AppState& state);

}  // namespace flashscope::viz
