#include "sim/engine/core_times.h"

#include <algorithm>
#include <cmath>

namespace flashscope {

constexpr int kDriftRounds = 8;
constexpr int kPartBits = 12;  // fixed point, for shares up to 2^50 picoseconds

CoreTimes::Kind::Kind(const TileOp& of, const Schedule& schedule)
    : op(of.op), tensor(of.tensor), rows(of.rows), cols(of.cols), depth(of.depth), heads(of.heads), starts(of.starts) {
  if (op != Op::load && op != Op::store) return;
  const TensorShape shape = shape_of(tensor, schedule.problem(), schedule.tile());
  alignment = (of.head * shape.head_bytes() + of.row * shape.pitch() + std::int64_t{of.col} * shape.element_bytes) %
              kVectorBytes;
}

CoreTimes::CoreTimes(const Schedule& schedule, const Machine& machine)
    : m_schedule(schedule),
      m_model(machine),
      m_clock(Rate::per_second(machine.sm_clock_mhz.value * 1e6)),
      m_global_latency(std::llround(machine.l2_latency_ns.value * 1e3)),
      m_barrier(std::llround(machine.barrier_ns.value * 1e3)) {}

void CoreTimes::start_kernel(int kernel, int ctas_per_sm) {
  m_kernel = kernel;
  m_ctas_per_sm = ctas_per_sm;
  const KernelLaunch& launch = m_schedule.kernels()[static_cast<std::size_t>(kernel)];
  m_warps = (launch.resources.threads - launch.loading_threads + kWarpSize - 1) / kWarpSize;
  m_warpgroups_drift = launch.matrix_unit == MatrixUnit::wgmma;
  m_kinds.clear();
  m_work.clear();
  m_times.clear();
  m_mixes.clear();
  m_prologue = time_of(m_schedule.prologue_work(kernel));
}

std::vector<const CoreTime*> CoreTimes::of(const std::vector<TileOp>& ops) {
  std::vector<int> kind_of_op, kinds;
  for (const TileOp& op : ops) {
    const int kind = kind_of(op);
    kind_of_op.push_back(kind);
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
  }
  const Mix& mix = mix_of(std::move(kinds));
  std::vector<const CoreTime*> times;
  for (int kind : kind_of_op) {
    const auto at = std::find(mix.kinds.begin(), mix.kinds.end(), kind) - mix.kinds.begin();
    times.push_back(&mix.times[static_cast<std::size_t>(at)]);
  }
  return times;
}

int CoreTimes::kind_of(const TileOp& op) {
  const Kind kind(op, m_schedule);
  const auto found = std::find(m_kinds.begin(), m_kinds.end(), kind);
  if (found == m_kinds.end()) {
    m_kinds.push_back(kind);
    m_work.push_back(m_schedule.warp_work(m_kernel, op));
    m_times.push_back(time_of(m_work.back()));
    return static_cast<int>(m_kinds.size()) - 1;
  }
  return static_cast<int>(found - m_kinds.begin());
}

/// An operation's shares are first taken as if all CTAs did the same. Beside each other, one waits while another
/// computes: the whole sequence is then simulated with all CTAs, and the shares are scaled to what it takes.
const CoreTimes::Mix& CoreTimes::mix_of(std::vector<int> kinds) {
  for (const auto& mix : m_mixes)
    if (mix->kinds == kinds) return *mix;
  auto mix = std::make_unique<Mix>();
  WarpWork sequence;
  for (int kind : kinds) {
    const std::size_t k = static_cast<std::size_t>(kind);
    sequence.then(m_work[k]);
    const Picoseconds wait = m_kinds[k].op == Op::load && !m_kinds[k].starts ? m_work[k].round_trips * m_global_latency
                             : m_kinds[k].op == Op::barrier ? m_barrier
                                                            : 0;
    const bool meets = m_kinds[k].op == Op::barrier;
    if (wait > 0 || meets) sequence.then({.clocks = static_cast<int>(wait / m_clock.cost(1)), .meets = meets});
    mix->times.push_back(m_times[k]);
  }
  if (m_warpgroups_drift) let_drift(sequence, *mix);
  for (int ctas = 2; ctas <= m_ctas_per_sm; ++ctas) {
    const std::size_t c = static_cast<std::size_t>(ctas - 1);
    Picoseconds sum = 0;
    for (const CoreTime& time : mix->times) sum += time.share[c];
    const Picoseconds share = together(sequence, ctas) / ctas;
    if (share >= sum) continue;
    const std::int64_t part = (share << kPartBits) / sum;
    for (CoreTime& time : mix->times) time.share[c] = (time.share[c] * part) >> kPartBits;
  }
  mix->kinds = std::move(kinds);
  m_mixes.push_back(std::move(mix));
  return *m_mixes.back();
}

/// Warpgroups that go on on their own come to be at different operations: one's products run under another's
/// exponentials. The sequence is simulated several times over, without a meeting; products keep the time that the tensor
/// cores need, and the other operations share what is left of the whole.
void CoreTimes::let_drift(const WarpWork& sequence, Mix& mix) const {
  WarpWork several;
  for (int round = 0; round < kDriftRounds; ++round) several.then(sequence);
  for (int ctas = 1; ctas <= m_ctas_per_sm; ++ctas) {
    const auto time_at = [ctas](CoreTime& time) -> Picoseconds& {
      return time.share[static_cast<std::size_t>(ctas - 1)];
    };
    Picoseconds products = 0, others = 0;
    for (CoreTime& time : mix.times) (time.reason == Reason::tensor ? products : others) += time_at(time);
    const Picoseconds whole = together(several, ctas) / ctas / kDriftRounds, left = std::max<Picoseconds>(0, whole - products);
    if (others == 0 || left >= others) continue;
    const std::int64_t part = (left << kPartBits) / others;
    for (CoreTime& time : mix.times)
      if (time.reason != Reason::tensor) {
        time_at(time) = (time_at(time) * part) >> kPartBits;
        if (ctas == 1) time.alone = time.share.front();
      }
  }
}

Picoseconds CoreTimes::together(const WarpWork& work, int ctas) const {
  return m_clock.cost(m_model.clocks(work, m_warps, ctas));
}

CoreTime CoreTimes::time_of(const WarpWork& work) const {
  CoreTime time;
  time.alone = together(work, 1);
  for (int ctas = 1; ctas <= m_ctas_per_sm; ++ctas) time.share.push_back(together(work, ctas) / ctas);
  switch (m_model.busiest(work)) {
    case SmModel::Unit::arithmetic: time.reason = Reason::fma; break;
    case SmModel::Unit::shared_memory: time.reason = Reason::smem; break;
    case SmModel::Unit::special_function: time.reason = Reason::exp; break;
    case SmModel::Unit::tensor: time.reason = Reason::tensor; break;
  }
  time.round_trips = work.round_trips;
  return time;
}

}  // namespace flashscope
