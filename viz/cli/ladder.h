// The ladder as an experiment: all rungs on one problem, a line each.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "sim/machine/machine.h"
#include "viz/io/recording.h"

namespace flashscope {

struct LadderRow {
  const Schedule* schedule = nullptr;
  const kernels::Measurement* measured = nullptr;  // or none, and then why
  std::optional<PredictedQuantities> predicted;    // at the clock of the measurement
  std::string refusal;
};

/// FLOP/s at which the units that a schedule multiplies on would do nothing else: the tensor cores' of its element, or the FMA
/// units', of all SMs at the machine's clock.
double peak_flops_per_s(const Schedule& schedule, const Machine& machine);

/// Time, FLOP/s of kept pairs, their share of that peak, and bytes: predicted beside measured. A rung that did not run says why.
std::string ladder_text(const std::vector<LadderRow>& rows, const Machine& machine);

}  // namespace flashscope
