// Heads repeat each other: once a kernel has turned L2 over, the CTAs of a head take as long as those of the head
// before and move the same bytes. What is noted at each head says when that is so; the run then passes over heads
// (Run::pass_over_heads).
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "sim/engine/engine.h"

namespace flashscope {

/// What a kernel has done at some moment of it, or from one moment to another.
struct Done {
  std::array<HbmTraffic, kNumTensors> tensors = {};
  std::int64_t dirty_bytes = 0;
  std::int64_t l2_read_hit_bytes = 0;
  std::array<Picoseconds, kNumReasons> reasons = {};
  // CTAs that start together load together and end together: between two moments there may be the loads of nine waves,
  // the ends of eight and the work of eight and a half. What one CTA takes is told by those that have ended.
  std::int64_t ctas = 0;      // that have ended
  Picoseconds cta_time = 0;   // of those
  std::int64_t cta_read = 0;  // of those: bytes from HBM

  std::int64_t read() const;
  std::int64_t produced() const;  // written back, or still dirty
  double time_each() const { return static_cast<double>(cta_time) / static_cast<double>(ctas); }
  double read_each() const { return static_cast<double>(cta_read) / static_cast<double>(ctas); }
  /// CTAs' work, also of those that have not ended.
  double work() const;

  Done operator-(const Done& before) const;
};

/// Moments one or more heads apart, while L2 holds nothing that is older than the kernel.
class HeadsSeen {
 public:
  void note(const Done& done) { m_seen.push_back(done); }
  void forget() { m_seen.clear(); }
  /// CTAs of the last half of what was seen took as long as those of the half before it, and moved the same bytes.
  /// `needed`: what they read on average if nobody reads again what L2 has lost. Where they do, more must have been
  /// seen: what is lost hangs on who comes first, and may change from wave to wave.
  bool repeat(double needed) const;
  /// What so many CTAs more will do, which produce so many bytes.
  Done next(std::int64_t ctas, std::int64_t produced) const;

 private:
  Done last_half() const { return m_seen.back() - m_seen[m_seen.size() - 1 - half()]; }
  std::size_t half() const { return (m_seen.size() - 1) / 2; }
  std::vector<Done> m_seen;
};

}  // namespace flashscope
