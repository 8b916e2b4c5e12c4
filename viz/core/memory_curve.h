// Memory against N, and the largest N that fits on each GPU: what O(N) bought.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "sim/machine/machine.h"
#include "viz/core/figure.h"
#include "viz/core/settings.h"

namespace flashscope::viz {

/// Bytes of all tensors the algorithm keeps in global memory at this length. Throws what make_schedule() throws.
std::int64_t memory_at(const Settings& settings, const std::string& algorithm, int seqlen);
struct MemoryLimit {
  std::string gpu;  // title
  double bytes = 0;
  std::array<int, 2> largest = {0, 0};  // N, left and right; kMaxSeqlen: at least that
};

struct MemoryCurve {
  Figure figure;
  std::vector<MemoryLimit> limits;  // smallest memory first
};
MemoryCurve memory_curve(const Settings& settings, const std::vector<Machine>& machines);

Sheet sheet_of(const MemoryCurve& curve, const Settings& settings);

}  // namespace flashscope::viz
