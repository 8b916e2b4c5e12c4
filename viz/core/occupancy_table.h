// What one CTA of each kernel occupies, how many an SM holds, which resource says so, and how the grid falls into
// waves.
#pragma once
#include <string>
#include <vector>

#include "sim/engine/engine.h"
#include "viz/core/figure.h"

namespace flashscope::viz {

/// One limit of an SM.
struct OccupancyLimit {
  std::string name;  // as the engine names it: "shared memory"
  double per_cta = 0, per_sm = 0;
  std::string unit;  // "B", "registers", …
  int ctas = 0;      // that this limit alone would let in
  bool binds = false;
};

struct OccupancyRow {
  std::string kernel;
  CtaResources resources;
  std::vector<OccupancyLimit> limits;
  int ctas_per_sm = 0;  // 0: a CTA does not fit
  int warps_per_sm = 0;
  int most_warps = 0;     // that the SM can hold
  std::int64_t ctas = 0;  // of the grid
  double waves = 0;       // ctas / (SMs · ctas_per_sm)
  double last_wave = 1;   // share of the slots that the last wave fills
};

std::vector<OccupancyRow> occupancy_table(const Schedule& schedule, const Machine& machine);

Sheet sheet_of(const std::vector<OccupancyRow>& rows);

}  // namespace flashscope::viz
