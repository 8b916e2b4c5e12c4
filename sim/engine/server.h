// A unit or link that several users share: it serves requests one after the other, in the order they come.
//
// Time is integer picoseconds, so that a run gives the same bytes on every machine. Rates come from descriptions as
// doubles and are turned once into attoseconds a unit; only multiplications and divisions of IEEE doubles are involved.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "sim/trace/trace.h"

namespace flashscope {

/// How long a unit of work takes. `cost(n)` is exact to a picosecond for n up to about 10^12.
class Rate {
 public:
  Rate() = default;
  static Rate per_second(double units) { return Rate(std::llround(1e18 / units)); }

  Picoseconds cost(std::int64_t units) const {
    const std::int64_t whole = units / kSplit, rest = units % kSplit;
    return whole * m_attoseconds + (rest * m_attoseconds + kSplit - 1) / kSplit;
  }

 private:
  static constexpr std::int64_t kSplit = 1'000'000;  // attoseconds in a picosecond
  explicit Rate(std::int64_t attoseconds) : m_attoseconds(attoseconds) {}
  std::int64_t m_attoseconds = 0;
};

class Server {
 public:
  /// Serves a request that arrives at `now` and takes `duration`; returns when it is done.
  Picoseconds serve(Picoseconds now, Picoseconds duration) {
    m_free = std::max(m_free, now) + duration;
    return m_free;
  }
  /// All that was accepted happens so much later.
  void put_off(Picoseconds by) { m_free += by; }

 private:
  Picoseconds m_free = 0;  // when the last accepted request is done
};

}  // namespace flashscope
