#include "sim/engine/splits.h"

#include <algorithm>

#include "sim/engine/engine.h"
#include "sim/schedule/algorithms.h"
#include "sim/schedule/decode_rung.h"

namespace flashscope {

int automatic_splits(const AttentionProblem& problem, TileShape tile, const Machine& machine) {
  tile.splits = 1;
  const auto schedule = make_schedule("split_kv", problem, tile);
  const KernelLaunch& launch = schedule->kernels().front();
  const std::int64_t slots =
      static_cast<std::int64_t>(machine.num_sms.value) * occupancy(launch.resources, machine).ctas_per_sm;
  const std::int64_t most = std::clamp(num_tiles(problem.seqlen_k, schedule->tile().bc), 1, kMaxBuiltSplits);
  return static_cast<int>(std::clamp<std::int64_t>(slots / std::max<std::int64_t>(1, launch.ctas()), 1, most));
}

}  // namespace flashscope
