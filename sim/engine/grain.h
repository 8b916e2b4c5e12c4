// How finely a long problem is taken: a loop over thousands of tiles is a loop over fewer, larger steps.
//
// A step of n tiles moves n tiles' bytes, waits n times and computes n times as long, so all that depends on a ratio stays
// as it is: which unit is busiest, what CTAs beside each other fill, who finds a tile in L2 that another fetched. What
// changes is the resolution of what happens once, the start and the end of a CTA: hence only loops of many steps.
#pragma once
#include <cstdint>
#include <vector>

#include "sim/machine/machine.h"
#include "sim/schedule/schedule.h"

namespace flashscope {

/// By kernel, repetitions of a loop that are one step: powers of two. Empty: each repetition is.
struct Grain {
  std::vector<int> repetitions;
  int of_kernel(int kernel) const { return repetitions.empty() ? 1 : repetitions[static_cast<std::size_t>(kernel)]; }
};

/// The coarsest at which the longest loop of each kernel is still `steps` steps, and a step is small beside L2.
Grain grain_of(const Schedule& schedule, const Machine& machine, std::int64_t steps);

}  // namespace flashscope
