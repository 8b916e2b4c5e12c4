#include <algorithm>

#include "sim/engine/engine.h"

namespace flashscope {

Occupancy occupancy(const CtaResources& r, const Machine& m) {
  const auto whole = [](const Quantity& q) { return static_cast<std::int64_t>(q.value); };
  const std::int64_t smem = r.smem_bytes + whole(m.smem_bytes_reserved_per_cta);
  const std::int64_t registers =
      std::int64_t{r.registers_per_thread} * ((r.threads + kWarpSize - 1) / kWarpSize) * kWarpSize;
  if (r.smem_bytes > whole(m.smem_bytes_per_cta)) return {0, "shared memory"};
  const struct {
    std::int64_t ctas;
    const char* limit;
  } limits[] = {{smem > 0 ? whole(m.smem_bytes_per_sm) / smem : whole(m.max_ctas_per_sm), "shared memory"},
                {registers > 0 ? whole(m.registers_per_sm) / registers : whole(m.max_ctas_per_sm), "registers"},
                {whole(m.max_threads_per_sm) / std::max(1, r.threads), "threads"},
                {whole(m.max_ctas_per_sm), "CTAs"}};
  Occupancy result{static_cast<int>(whole(m.max_ctas_per_sm)), "CTAs"};
  for (const auto& [ctas, limit] : limits)
    if (ctas < result.ctas_per_sm) result = {static_cast<int>(ctas), limit};
  return result;
}

}  // namespace flashscope
