// The roofline of a machine with what the two algorithms do under it, predicted and measured.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "sim/machine/machine.h"
#include "viz/core/comparison.h"
#include "viz/core/figure.h"

namespace flashscope::viz {

/// FLOPs are 4 · head_dim per kept pair; bytes are HBM bytes read and written, dirty lines at the end included.
Figure roofline_figure(const Settings& settings, const Machine& machine,
                       const std::array<std::optional<WholeRun>, 2>& runs, const std::vector<Recording>& recordings);

}  // namespace flashscope::viz
