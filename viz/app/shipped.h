// What is shipped with the program, as a window starts with it.
#pragma once
#include <string>
#include <vector>

#include "sim/machine/machine.h"
#include "viz/io/recording.h"

namespace flashscope::viz {

/// The shipped descriptions, and the chosen one when it is a file. Throws Error(input) for a file that makes no sense.
std::vector<Machine> known_machines(const std::string& chosen);
/// One bad file must not close the window: it is told on standard error, and its rows are then "unavailable".
std::vector<Recording> shipped_recordings();

}  // namespace flashscope::viz
