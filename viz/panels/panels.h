// The panels of the window. Each draws a part of the state into its rectangle; those that take AppState& also change
// what the user changes. None keeps anything between frames, and none calls another.
#pragma once
#include <optional>
#include <vector>

#include "viz/core/app_state.h"
#include "viz/core/byte_table.h"
#include "viz/core/comparison.h"
#include "viz/core/memory_curve.h"
#include "viz/core/occupancy_table.h"
#include "viz/core/scene.h"
#include "viz/core/source_view.h"
#include "viz/render/ui.h"

namespace flashscope::viz {

/// Views, inspectors, and buttons for looks, undo and help. The answer is what was pressed.
std::optional<Action> top_bar_panel(const Ui& ui, const Rect& area, const AppState& state);

/// Problem, tile, algorithms and GPU as controls; every number is clamped before it reaches the state.
void controls_panel(const Ui& ui, const Rect& area, AppState& state, const std::vector<Machine>& machines);

/// One algorithm at one instant: HBM, L2, links, SMs, counters. `order`: the tensors of both stages, so that both keep
/// the same places for them; `beside`: the other stage's trace, if there is one, so that both have SMs of one height.
/// At the level kWholeGpu every SM is a cell.
void stage_panel(const Ui& ui, const Rect& area, const char* name, const StageTrace& trace, const Scene& scene,
                 const std::vector<Tensor>& order, int level, const StageTrace* beside = nullptr);
/// In place of a stage that could not be made, or is not there yet.
void stage_message(const Ui& ui, const Rect& area, const char* name, const std::string& title, const std::string& text);

/// Play, pause, step, speed; the clock; links and the slots of SM 0 over time for both algorithms, which is also where
/// one scrubs, zooms and pans. `recorded_us`: measured times of the very problem that the stage runs, if any.
std::optional<Action> timeline_panel(const Ui& ui, const Rect& area, AppState& state, const Results& results,
                                     const std::array<std::optional<double>, 2>& recorded_us);

/// What the user asked of the session by a button.
enum class Request { none, confirm, cancel, measure, resume };
/// Predicted beside recorded, for both algorithms; measures on the GPU of this machine.
Request comparison_panel(const Ui& ui, const Rect& area, const Results& results,
                         const std::vector<Comparison>& comparisons);

// Wide inspectors: one file each.
void bytes_panel(const Ui& ui, const Rect& area, const AppState& state, const ByteTable& table,
                 const std::vector<Comparison>& comparisons);
void roofline_panel(const Ui& ui, const Rect& area, const Figure& figure);
/// `figure`: of the sweep as far as it is computed.
/// `is_part`: some of the sweep is not known, and with `progress` 1 nothing works on it.
Request sweep_panel(const Ui& ui, const Rect& area, AppState& state, const Figure& figure, double progress, bool is_part = false);
void softmax_panel(const Ui& ui, const Rect& area, AppState& state, const SoftmaxSteps& steps);
void occupancy_panel(const Ui& ui, const Rect& area, const Machine& machine, const std::vector<OccupancyRow>& rows);
/// `doing`: the operation in words.
void source_panel(const Ui& ui, const Rect& area, const SourceFile& file, const SourcePlace& place,
                  const std::string& doing);
void memory_panel(const Ui& ui, const Rect& area, const MemoryCurve& curve, const Settings& settings);
/// In place of an inspector whose numbers are not there.
void inspector_message(const Ui& ui, const Rect& area, const std::string& title, const std::string& text);

/// The Validate view: scatter, summary, rows with their errors. `chosen`: a row whose problem the user wants to see.
struct ValidateAnswer {
  Request request = Request::none;
  std::optional<std::size_t> chosen;  // place in the recording
};
ValidateAnswer validate_panel(const Ui& ui, const Rect& area, AppState& state, const Validation& validation,
                              double progress);

/// Keys, and what shades and colours mean; over everything else.
void help_panel(const Ui& ui, const Rect& window, AppState& state);

}  // namespace flashscope::viz
