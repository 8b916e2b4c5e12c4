// One run of all CTAs of a schedule: what simulate() makes its prediction of (some_heads.cpp).
#pragma once
#include "sim/engine/engine.h"
#include "sim/engine/grain.h"

namespace flashscope {

/// Every CTA, whatever the budget; with Start::warm the second of two runs.
Prediction simulate_all(const Schedule& schedule, const Machine& machine, const RunOptions& options,
                        const Grain& grain = {});

/// Sums of the kernels' HBM traffic.
void add_up(Prediction& prediction);

}  // namespace flashscope
