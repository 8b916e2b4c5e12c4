// What simulate() (simulate.cpp) makes its prediction of: a run of all CTAs of a schedule, or runs of some.
#pragma once
#include <cstdint>
#include <vector>

#include "sim/engine/engine.h"
#include "sim/engine/grain.h"

namespace flashscope {

/// Every CTA, whatever the budget; with Start::warm the second of two runs. `ctas`: the first so many of each kernel.
Prediction simulate_all(const Schedule& schedule, const Machine& machine, const RunOptions& options,
                        const Grain& grain = {}, const std::vector<std::int64_t>& ctas = {});

/// Two runs with fewer heads, continued in a straight line.
Prediction simulate_some_heads(const Schedule& schedule, const Machine& machine, const RunOptions& options,
                               std::int64_t steps_per_head, const Grain& grain);

/// Two runs with the first CTAs of each kernel, continued in a straight line: for kernels whose CTAs are alike.
Prediction simulate_some_ctas(const Schedule& schedule, const Machine& machine, const RunOptions& options,
                              const Grain& grain);

/// count(), cancelled as the run is.
Count counted_for(const Schedule& schedule, const RunOptions& options);

/// Sums of the kernels' HBM traffic.
void add_up(Prediction& prediction);

}  // namespace flashscope
