// Exact counts of a schedule: bytes by tensor and direction, FLOPs, exponentials. Nothing here knows an algorithm.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "sim/schedule/schedule.h"

namespace flashscope {

/// Bytes between the SMs and global memory. `sector_*` is the same rounded up to 32-byte sectors, request by request:
/// what the hardware counters see.
struct SmTraffic {
  std::int64_t read = 0, write = 0;
  std::int64_t sector_read = 0, sector_write = 0;
  bool operator==(const SmTraffic&) const = default;
};

struct KernelCount {
  SmTraffic sm;
  std::array<SmTraffic, kNumTensors> tensors;
  std::int64_t flops = 0;           // of the pairs the mask keeps: attention_flops() over the whole algorithm
  std::int64_t flops_executed = 0;  // of whole tiles, as the schedule runs them
  std::int64_t exps = 0;            // kept pairs, and one per row and rescale
  std::int64_t ops = 0;             // tile operations
};

struct Count {
  std::vector<KernelCount> kernels;
  KernelCount total;
};

/// `progress`: called every some thousand operations with the done share 0 … 1; returning false stops the count with
/// Error(internal, "cancelled"). One CTA of small tiles can take minutes.
Count count(const Schedule& schedule, const std::function<bool(double)>& progress = {});

/// What a sink adds for one operation; the engine and the stage use the same numbers.
void add_op(const Schedule& schedule, const TileOp& op, std::int64_t times, KernelCount& into);

}  // namespace flashscope
