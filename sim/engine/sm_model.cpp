#include "sim/engine/sm_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <queue>
#include <utility>
#include <vector>

#include "sim/schedule/walk.h"

namespace flashscope {
namespace {

/// A stretch that repeats more often than this is taken several times at once: what it waits adds up all the same.
constexpr int kMaxTimes = 16;

std::vector<Stretch> unrolled(const WarpWork& work) {
  std::vector<Stretch> all;
  for (const Phase& phase : work.phases) {
    const int at_once = phase.stretches.size() == 1 ? (phase.times + kMaxTimes - 1) / kMaxTimes : 1;
    for (int left = phase.times; left > 0; left -= at_once)
      for (Stretch s : phase.stretches) {
        const int n = std::min(at_once, left);
        for (int Stretch::*count :
             {&Stretch::instructions, &Stretch::clocks, &Stretch::fma, &Stretch::alu, &Stretch::mufu, &Stretch::mma,
              &Stretch::wgmma, &Stretch::bank_reads, &Stretch::wavefronts, &Stretch::waits})
          s.*count *= n;
        all.push_back(s);
      }
  }
  return all;
}

constexpr int kWavefrontBytes = 128;            // of one pass over the 32 banks
constexpr Clocks kMmaFlops = 2 * 16 * 8 * 16;  // of one product (Stretch::mma)

int clocks_per_instruction(int schedulers, double lanes_per_clock) {
  return std::max(1, static_cast<int>(std::lround(kWarpSize * schedulers / lanes_per_clock)));
}

struct Warp {
  std::size_t next = 0;             // stretch
  std::array<Clocks, 2> need = {};  // when the results are there that its next stretch waits for, and the one after
  Clocks deferred = 0;              // of the tensor cores, behind its next products
};

/// Ready warps, the earliest first; ties in the warps' order.
struct Ready {
  Clocks at;
  int warp;
  bool operator>(const Ready& other) const { return at != other.at ? at > other.at : warp > other.warp; }
};

}  // namespace

SmModel::SmModel(const Machine& m)
    : m_schedulers(static_cast<int>(m.warp_schedulers.value)),
      m_fma_clocks(clocks_per_instruction(m_schedulers, m.fma_flops_per_clk.value / 2)),
      m_alu_clocks(clocks_per_instruction(m_schedulers, m.alu_ops_per_clk.value)),
      m_mufu_clocks(clocks_per_instruction(m_schedulers, m.exps_per_clk.value)),
      m_bank_reads_per_clock(static_cast<int>(m.bank_reads_per_clk.value)),
      m_smem_bytes_per_clock(static_cast<int>(m.smem_bytes_per_clk.value)),
      m_mma_flops_per_clock(std::max<std::int64_t>(1, std::llround(m.mma_flops_per_clk.value))),
      m_tensor_flops_per_clock(std::max<std::int64_t>(1, std::llround(m.tensor_fp16_flops_per_clk.value))),
      m_latency(std::llround(m.on_chip_latency_clk.value)) {}

Clocks SmModel::service(const Stretch& s) const {
  return std::max({Clocks{s.instructions}, Clocks{s.fma} * m_fma_clocks, Clocks{s.alu} * m_alu_clocks,
                   Clocks{s.mufu} * m_mufu_clocks, Clocks{s.bank_reads} / m_bank_reads_per_clock, mma_clocks(s)});
}

/// A scheduler has its share of the SM's tensor cores.
Clocks SmModel::mma_clocks(const Stretch& s) const {
  return Clocks{s.mma} * kMmaFlops * m_schedulers / m_mma_flops_per_clock;
}

Clocks SmModel::wgmma_clocks(const Stretch& s) const {
  return Clocks{s.wgmma} * kMmaFlops * m_schedulers / m_tensor_flops_per_clock;
}

Clocks SmModel::wavefront_clocks(const Stretch& s, int sharers) const {
  return Clocks{s.wavefronts} * sharers * kWavefrontBytes / m_smem_bytes_per_clock;
}

SmModel::Unit SmModel::busiest(const WarpWork& work) const {
  Clocks arithmetic = 0, shared = 0, special = 0, tensor = 0;
  for (const Phase& phase : work.phases)
    for (const Stretch& s : phase.stretches) {
      arithmetic += phase.times * std::max({Clocks{s.instructions}, Clocks{s.fma} * m_fma_clocks,
                                            Clocks{s.alu} * m_alu_clocks, Clocks{s.bank_reads}});
      special += phase.times * Clocks{s.mufu} * m_mufu_clocks;
      tensor += phase.times * (mma_clocks(s) + wgmma_clocks(s));
      shared += phase.times * wavefront_clocks(s, m_schedulers);
    }
  return tensor > std::max({arithmetic, shared, special}) ? Unit::tensor
         : special > std::max(arithmetic, shared) ? Unit::special_function
         : shared > arithmetic                  ? Unit::shared_memory
                                                : Unit::arithmetic;
}

Clocks SmModel::clocks(const WarpWork& work, int warps_per_cta, int ctas) const {
  // The schedulers are alike, so one stands for all: it sees its own warps, and a shared-memory pipe that serves as
  // many wavefronts for each of the others between two of its own.
  const int warps = (warps_per_cta + m_schedulers - 1) / m_schedulers * ctas;
  const int sharers = std::min(m_schedulers, warps_per_cta);
  const std::vector<Stretch> stretches = unrolled(work);
  std::vector<Warp> all(static_cast<std::size_t>(warps));
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> queue;
  for (int w = 0; w < warps; ++w) queue.push({0, w});
  Clocks scheduler_free = 0, pipe_free = 0, tensor_free = 0, last = 0;
  while (!queue.empty()) {
    const Ready ready = queue.top();
    queue.pop();
    Warp& warp = all[static_cast<std::size_t>(ready.warp)];
    if (warp.next == stretches.size()) {
      if (warp.deferred > 0) tensor_free = std::max(tensor_free, ready.at) + warp.deferred;
      last = std::max(last, ready.at);
      continue;
    }
    const Stretch& s = stretches[warp.next++];
    const Clocks start = std::max(ready.at, scheduler_free), busy = service(s);
    scheduler_free = start + busy;
    Clocks done = start + std::max(busy, Clocks{s.clocks});
    if (s.waits > 0) done += (s.waits - (s.wavefronts > 0 ? 1 : 0)) * m_latency;
    if (s.wavefronts > 0) {
      pipe_free = std::max(pipe_free, start) + wavefront_clocks(s, sharers);
      if (s.prefetches || s.waits > 0) {
        Clocks& need = warp.need[s.prefetches ? 1 : 0];
        need = std::max(need, pipe_free + m_latency);
      }
    }
    if (s.defers) {
      warp.deferred += wgmma_clocks(s);
    } else if (s.wgmma > 0) {  // the tensor cores take products in the order of their issue
      tensor_free = std::max(tensor_free, start) + wgmma_clocks(s);
      done = std::max(done, tensor_free);
      tensor_free += std::exchange(warp.deferred, 0);
    }
    const Clocks next = std::max(done, warp.need[0]);
    warp.need = {warp.need[1], 0};
    queue.push({next, ready.warp});
  }
  return std::max({last, scheduler_free, pipe_free, tensor_free});
}

}  // namespace flashscope
