// How many parts to cut a long cache into.
#pragma once
#include "sim/machine/machine.h"
#include "sim/schedule/schedule.h"

namespace flashscope {

/// The most splits with which the CTAs of split_kv still run all at once on the machine; at least 1, at most one for
/// each key tile and no more than the kernel is built for. Throws like make_schedule(); 1 where not even one CTA fits.
int automatic_splits(const AttentionProblem& problem, TileShape tile, const Machine& machine);

}  // namespace flashscope
