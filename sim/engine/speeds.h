// Rates and delays of a machine in the engine's integer units.
#pragma once
#include <cmath>

#include "sim/engine/server.h"
#include "sim/machine/machine.h"

namespace flashscope {

struct Speeds {
  explicit Speeds(const Machine& m)
      : l2(Rate::per_second(m.l2_gb_per_s.value * 1e9)),
        hbm_read(Rate::per_second(m.hbm_read_gb_per_s.value * 1e9)),
        hbm_write(Rate::per_second(m.hbm_write_gb_per_s.value * 1e9)),
        port(per_clock(m, m.l2_bytes_per_clk_per_sm)),
        clock(Rate::per_second(m.sm_clock_mhz.value * 1e6)),
        l2_latency(from_ns(m.l2_latency_ns)),
        l2_far_latency(from_ns(m.l2_far_latency_ns)),
        hbm_latency(from_ns(m.hbm_latency_ns)),
        cta_start(from_ns(m.cta_start_ns)),
        barrier(from_ns(m.barrier_ns)),
        launch_gap(std::llround(m.launch_gap_us.value * 1e6)) {}

  static Rate per_clock(const Machine& m, const Quantity& units) {
    return Rate::per_second(units.value * m.sm_clock_mhz.value * 1e6);
  }

  Rate l2, hbm_read, hbm_write, port, clock;
  Picoseconds l2_latency, l2_far_latency, hbm_latency, cta_start, barrier, launch_gap;

 private:
  static Picoseconds from_ns(const Quantity& q) { return std::llround(q.value * 1e3); }
};

}  // namespace flashscope
