// How the 32 lanes of a warp spread one request over memory, and how many 32-byte sectors that touches: the rule that
// the simulator uses for SM traffic, which the probe holds against the hardware's counters.
#pragma once
#include <cstdint>
#include <set>

namespace flashscope::kernels {

inline constexpr int kWarpLanes = 32;
inline constexpr int kSectorBytes = 32;

/// Request r, step s, lane l accesses element_bytes at r * request_pitch + offset + s * step_bytes + l * lane_stride.
/// Each request has its memory to itself, so that no sector is touched by two of them.
struct AccessPattern {
  int element_bytes = 4;
  int lane_stride = 4;  // bytes from lane to lane: the element's size when consecutive, 0 for a broadcast
  int offset = 0;       // bytes, of lane 0 in its sector
  int active_lanes = kWarpLanes;
  int steps = 1;  // instructions one after the other in each warp
  int step_bytes = 0;
  std::int64_t request_pitch = 128;
};

/// Sectors that the lanes [first, last) touch in one step.
inline std::set<std::int64_t> sectors_of_step(const AccessPattern& p, int step, int first, int last) {
  std::set<std::int64_t> sectors;
  for (int lane = first; lane < last && lane < p.active_lanes; ++lane) {
    const std::int64_t begin =
        std::int64_t{p.offset} + std::int64_t{step} * p.step_bytes + std::int64_t{lane} * p.lane_stride;
    for (std::int64_t s = begin / kSectorBytes; s <= (begin + p.element_bytes - 1) / kSectorBytes; ++s)
      sectors.insert(s);
  }
  return sectors;
}

/// Bytes of one request counted as sectors of each warp instruction: all steps, each on its own.
inline std::int64_t sector_bytes_by_instruction(const AccessPattern& p) {
  std::int64_t sectors = 0;
  for (int step = 0; step < p.steps; ++step)
    sectors += static_cast<std::int64_t>(sectors_of_step(p, step, 0, kWarpLanes).size());
  return sectors * kSectorBytes;
}

/// The same, if the hardware served at most 128 bytes at once: 8-byte elements in halves of a warp, 16-byte ones in
/// quarters.
inline std::int64_t sector_bytes_by_128(const AccessPattern& p) {
  const int lanes = p.element_bytes > 4 ? 128 / p.element_bytes : kWarpLanes;
  std::int64_t sectors = 0;
  for (int step = 0; step < p.steps; ++step)
    for (int first = 0; first < kWarpLanes; first += lanes)
      sectors += static_cast<std::int64_t>(sectors_of_step(p, step, first, first + lanes).size());
  return sectors * kSectorBytes;
}

/// Bytes of one request if a sector that an earlier step of the same warp touched came for free.
inline std::int64_t sector_bytes_once(const AccessPattern& p) {
  std::set<std::int64_t> sectors;
  for (int step = 0; step < p.steps; ++step) sectors.merge(sectors_of_step(p, step, 0, kWarpLanes));
  return static_cast<std::int64_t>(sectors.size()) * kSectorBytes;
}

/// Bytes that the lanes name, whatever the sectors.
inline std::int64_t named_bytes(const AccessPattern& p) {
  return std::int64_t{p.element_bytes} * p.active_lanes * p.steps;
}

}  // namespace flashscope::kernels
