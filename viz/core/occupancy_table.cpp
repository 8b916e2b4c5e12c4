#include "viz/core/occupancy_table.h"

#include <cmath>

#include "viz/io/json_numbers.h"

namespace flashscope::viz {
namespace {

constexpr double kPlenty = 1 << 30;

struct Limited {
  const char* name;
  const char* unit;
  Quantity Machine::*capacity;
};
const Limited kLimits[] = {
    {"shared memory", "B", &Machine::smem_bytes_per_sm},
    {"registers", "", &Machine::registers_per_sm},
    {"threads", "", &Machine::max_threads_per_sm},
    {"CTAs", "", &Machine::max_ctas_per_sm},
};

double per_cta(const std::string& limit, const CtaResources& r, const Machine& m) {
  const int warps = (r.threads + kWarpSize - 1) / kWarpSize;
  if (limit == "shared memory") return static_cast<double>(r.smem_bytes) + m.smem_bytes_reserved_per_cta.value;
  if (limit == "registers") return static_cast<double>(r.registers_per_thread) * warps * kWarpSize;
  if (limit == "threads") return r.threads;
  return 1;
}

/// The engine's own answer for an SM on which nothing but one limit is scarce.
int ctas_by(const Limited& limit, const CtaResources& resources, Machine machine) {
  for (const Limited& other : kLimits)
    if (other.capacity != limit.capacity) (machine.*other.capacity).value = kPlenty;
  return occupancy(resources, machine).ctas_per_sm;
}

}  // namespace

std::vector<OccupancyRow> occupancy_table(const Schedule& schedule, const Machine& machine) {
  std::vector<OccupancyRow> rows;
  for (const KernelLaunch& launch : schedule.kernels()) {
    OccupancyRow row;
    row.kernel = launch.name;
    row.resources = launch.resources;
    const Occupancy all = occupancy(launch.resources, machine);
    row.ctas_per_sm = all.ctas_per_sm;
    for (const Limited& limit : kLimits)
      row.limits.push_back({limit.name, per_cta(limit.name, launch.resources, machine), (machine.*limit.capacity).value,
                            limit.unit, ctas_by(limit, launch.resources, machine), all.limit == limit.name});
    const int warps = (launch.resources.threads + kWarpSize - 1) / kWarpSize;
    row.warps_per_sm = warps * row.ctas_per_sm;
    row.most_warps = static_cast<int>(machine.max_threads_per_sm.value) / kWarpSize;
    row.ctas = launch.ctas();
    const double slots = machine.num_sms.value * row.ctas_per_sm;
    if (slots > 0) {
      row.waves = static_cast<double>(row.ctas) / slots;
      const double part = row.waves - std::floor(row.waves);
      row.last_wave = part > 0 ? part : 1;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Sheet sheet_of(const std::vector<OccupancyRow>& rows) {
  Sheet sheet{{"kernel", "limit", "per_cta", "per_sm", "ctas", "binds", "ctas_per_sm", "grid", "waves"}, {}};
  for (const OccupancyRow& row : rows)
    for (const OccupancyLimit& limit : row.limits)
      sheet.rows.push_back({row.kernel, limit.name, number_text(limit.per_cta), number_text(limit.per_sm),
                            std::to_string(limit.ctas), limit.binds ? "yes" : "no", std::to_string(row.ctas_per_sm),
                            std::to_string(row.ctas), number_text(row.waves)});
  return sheet;
}

}  // namespace flashscope::viz
