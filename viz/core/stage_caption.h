// What of the problem the stages draw, in one line.
#pragma once
#include <string>
#include <vector>

#include "viz/core/session.h"

namespace flashscope::viz {

/// "Stage: 4 of 16 heads, the first 1,024 of 8,192 rows and keys. Tiles 64 × 64, …". `both`: two stages are in view.
std::string stage_caption(const Results& results, int level, bool both = true);
/// In place of the controls, where there is no room for them: the problem and the GPU, then what the stage draws of it.
std::string problem_caption(const Results& results);

/// Where the tile that is set, which both sides take, is not the one that this side's kernel is built with: which that
/// is, from the longest words to the shortest. Else empty.
std::vector<std::string> not_its_tile(const Schedule& schedule);

}  // namespace flashscope::viz
