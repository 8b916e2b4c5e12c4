// How finely a long problem is taken: a loop over thousands of tiles is a loop over fewer, larger steps.
//
// A step of n tiles moves n tiles' bytes, waits n times and computes n times as long, so all that depends on a ratio stays
// as it is: which unit is busiest, what CTAs beside each other fill, who finds a tile in L2 that another fetched. A CTA's
// first and last steps are single tiles, since nothing hides those. What changes is how far CTAs are apart: where L2 just
// holds what they share, that decides what they find (simulate.cpp looks whether it does).
#pragma once
#include <cstdint>
#include <vector>

#include "sim/machine/machine.h"
#include "sim/schedule/schedule.h"

namespace flashscope {

/// What L2 keeps or loses as one of S and P.
struct ScoreBlocks {
  /// Key tiles: a power of two. They are written and read one after the other, or all at once, where rows of scores are
  /// moved as wholes (Schedule::score_block_rows).
  int tiles = 1;
  /// Of a query tile, likewise; or as many as are moved as wholes.
  bool has_all_rows = false;
};

struct Grain {
  std::vector<int> repetitions;  // of a loop that are one step, by kernel: powers of two. Empty: each is
  ScoreBlocks scores = {};
  /// Heads that do what those before them did are passed over (heads.h).
  bool passes_over_heads = false;
  int of_kernel(int kernel) const { return repetitions.empty() ? 1 : repetitions[static_cast<std::size_t>(kernel)]; }
};

/// As many as change nothing (tests/sim/grain_test.cpp), where S alone is several times L2 and rows of scores are moved
/// as wholes; else single tiles.
ScoreBlocks score_blocks(const Schedule& schedule, const Machine& machine);
/// As many as leave L2 some hundred blocks: changes something here and there.
ScoreBlocks widest_score_blocks(const Schedule& schedule, const Machine& machine);

/// The coarsest at which the longest loop of each kernel is still `steps` steps, and a step is small beside L2.
Grain grain_of(const Schedule& schedule, const Machine& machine, std::int64_t steps);

}  // namespace flashscope
