// The counters below a stage: what has moved so far, in the bytes that Numbers counts, too.
#pragma once
#include <string>
#include <vector>

#include "viz/core/scene.h"

namespace flashscope::viz {

struct StageCounter {
  std::string name;
  std::vector<std::string> texts;  // of its value, the one that says most first
  double share = 0;                // of the whole run's bytes, so far
  double share_in_l2 = 0;          // beyond that: written, and not yet in HBM
  bool checked = false;            // at the end: the formula gives the same
};

/// SM read, SM write, HBM read, HBM write. SM traffic is counted in whole 32-byte sectors, as hardware does, so that a
/// kernel which asks for many sectors and uses little of each is seen to; its formula counts the elements it names.
std::vector<StageCounter> stage_counters(const StageTrace& trace, const Scene& scene);

}  // namespace flashscope::viz
