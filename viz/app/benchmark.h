// What the window costs: the numbers that docs/window.md states, measured on the machine at hand, without a display.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "sim/machine/machine.h"
#include "viz/core/app_state.h"
#include "viz/io/recording.h"

namespace flashscope::viz {

/// One thing measured. Time of the processor counts all threads of the program, those of a software renderer too: that is
/// what a machine that does something else beside still tells reliably.
struct WindowCost {
  std::string what;
  double wall_ms = 0, cpu_ms = 0;  // of one
  int count = 1;                   // of how many the mean
};

/// From the start of the program, which has so far read its machines and recordings, to its first picture; a frame while
/// playing a score map of 4096 × 4096 tiles; a frame and the wait for a new stage while N is dragged. 1280 × 720.
std::vector<WindowCost> window_costs(const std::vector<Machine>& machines, const std::vector<Recording>& recordings,
                                     std::chrono::steady_clock::time_point start);
std::string table_of(const std::vector<WindowCost>& costs);

/// A stage of one head with 4096 × 4096 score tiles, of which a mask leaves the diagonal, in place of what `results` have.
void put_large_map(const Machine& machine, AppState& state, Results& results);

}  // namespace flashscope::viz
