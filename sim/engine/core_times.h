// How long an SM takes for each operation of a CTA, by the CTAs that share it. The schedule's work (warp_work.h) goes
// through the SM model once for each kind of operation, not for each tile.
#pragma once
#include <memory>
#include <vector>

#include "sim/engine/server.h"
#include "sim/engine/sm_model.h"
#include "sim/schedule/schedule.h"

namespace flashscope {

struct CoreTime {
  Picoseconds alone = 0;  // from start to end, for a CTA on its own
  /// What each of 1, 2, … resident CTAs takes of the SM, so that together they end when the SM model says: share[c -
  /// 1].
  std::vector<Picoseconds> share;
  Reason reason = Reason::fma;  // the unit that is busy longest
  std::int64_t round_trips = 1;
};

class CoreTimes {
 public:
  CoreTimes(const Schedule& schedule, const Machine& machine);

  void start_kernel(int kernel, int ctas_per_sm);

  const CoreTime& prologue() const { return m_prologue; }
  /// Of each operation of a stretch of program that a CTA repeats or runs through. Valid until the next kernel starts.
  std::vector<const CoreTime*> of(const std::vector<TileOp>& ops);

 private:
  /// Operations that agree in this take equal time.
  struct Kind {
    Kind(const TileOp& tile_op, const Schedule& schedule);
    bool operator==(const Kind&) const = default;
    Op op;
    Tensor tensor;
    int rows, cols, depth, heads;
    bool starts;
    std::int64_t alignment = 0;  // of a copy's first byte: vectors or single elements
  };
  /// Kinds that run beside each other, each CTA at another of them.
  struct Mix {
    std::vector<int> kinds;  // in the order of their first use
    std::vector<CoreTime> times;
  };

  int kind_of(const TileOp& op);
  const Mix& mix_of(std::vector<int> kinds);
  void let_drift(const WarpWork& sequence, Mix& mix) const;
  CoreTime time_of(const WarpWork& work) const;
  Picoseconds together(const WarpWork& work, int ctas) const;

  const Schedule& m_schedule;
  const SmModel m_model;
  Rate m_clock;
  Picoseconds m_global_latency, m_barrier;
  int m_kernel = 0, m_warps = 0, m_ctas_per_sm = 0;
  bool m_warpgroups_drift = false;
  CoreTime m_prologue;
  std::vector<Kind> m_kinds;
  std::vector<WarpWork> m_work;  // of each kind
  std::vector<CoreTime> m_times;
  std::vector<std::unique_ptr<Mix>> m_mixes;
};

}  // namespace flashscope
