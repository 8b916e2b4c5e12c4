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

/// A product of mma.sync holds the issue of its scheduler, for warps that have nothing to do with it too: with n other
/// instructions beside each of them a scheduler takes 5.6 + n clocks, from 6 alone; with an exponential 9.3, that is as
/// many as with three to four others (flashscope_mma_probe, H200).
constexpr Clocks kHeldByFive = 28;   // clocks, of five products
constexpr Clocks kHeldByThree = 11;  // of three exponentials, in work that has products

/// A stretch that waits for units or products is issued in pieces of so many clocks: the scheduler turns from warp to warp
/// much more often than stretches end.
constexpr Clocks kPiece = 24;

int clocks_per_instruction(int schedulers, double lanes_per_clock) {
  return std::max(1, static_cast<int>(std::lround(kWarpSize * schedulers / lanes_per_clock)));
}

struct Warp {
  std::size_t next = 0;             // stretch
  std::array<Clocks, 2> need = {};  // when the results are there that its next stretch waits for, and the one after
  int piece = 0;                    // of its next stretch
  const Stretch* deferred = nullptr;  // a product behind its next one
  const Stretch* follower = nullptr;  // a product that was issued with its last one
  Clocks left_until = 0;              // when that, or what was deferred, is done
};

/// Warps of a CTA that wait for the others.
struct Meeting {
  Clocks at = 0;
  std::vector<int> warps;
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

/// Of the scheduler's slots: what no other warp can use, whatever else it needs.
Clocks SmModel::issue_clocks(const Stretch& s, bool beside_products) const {
  const Clocks products = std::min(Clocks{s.mma} * kHeldByFive / 5, mma_clocks(s));
  const Clocks exponentials = beside_products ? s.mufu * kHeldByThree / 3 : s.mufu;
  return std::max({s.instructions - s.mma - s.mufu + products + exponentials, Clocks{s.fma} * m_fma_clocks,
                   Clocks{s.bank_reads} / m_bank_reads_per_clock});
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
      if (s.wgmma == 0) shared += phase.times * wavefront_clocks(s, m_schedulers);
    }
  return tensor > std::max({arithmetic, shared, special}) ? Unit::tensor
         : special > std::max(arithmetic, shared) ? Unit::special_function
         : shared > arithmetic                  ? Unit::shared_memory
                                                : Unit::arithmetic;
}

/// Pieces that a stretch is issued in.
int SmModel::pieces_of(const Stretch& s, bool beside_products) const {
  const Clocks issue = issue_clocks(s, beside_products), units = std::max(s.alu * m_alu_clocks, s.mufu * m_mufu_clocks);
  return s.mma == 0 && units <= issue ? 1 : static_cast<int>(std::max<Clocks>(1, issue / kPiece));
}

Clocks SmModel::clocks(const WarpWork& work, int warps_per_cta, int ctas) const {
  // The schedulers are alike, so one stands for all: it sees its own warps, and a shared-memory pipe that serves as
  // many wavefronts for each of the others between two of its own.
  const int warps_each = (warps_per_cta + m_schedulers - 1) / m_schedulers, warps = warps_each * ctas;
  const int sharers = std::min(m_schedulers, warps_per_cta);
  const std::vector<Stretch> stretches = unrolled(work);
  const bool multiplies = std::any_of(stretches.begin(), stretches.end(), [](const Stretch& s) { return s.mma > 0; });
  std::vector<Warp> all(static_cast<std::size_t>(warps));
  std::vector<Meeting> meetings(static_cast<std::size_t>(ctas));
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> queue;
  for (int w = 0; w < warps; ++w) queue.push({0, w});
  Clocks issue_free = 0, alu_free = 0, mufu_free = 0, mma_free = 0, pipe_free = 0, tensor_free = 0, last = 0;
  // Operands stream in from shared memory while the tensor cores multiply.
  const auto multiply = [&](const Stretch& s, Clocks from) {
    pipe_free = std::max(pipe_free, from) + wavefront_clocks(s, sharers);
    tensor_free = std::max(std::max(tensor_free, from) + wgmma_clocks(s), pipe_free);
    return tensor_free;
  };
  while (!queue.empty()) {
    const Ready ready = queue.top();
    queue.pop();
    Warp& warp = all[static_cast<std::size_t>(ready.warp)];
    if (warp.next == stretches.size()) {
      if (warp.deferred) multiply(*std::exchange(warp.deferred, nullptr), ready.at);
      last = std::max(last, ready.at);
      continue;
    }
    const Stretch& s = stretches[warp.next];
    if (s.meets) {
      ++warp.next;
      Meeting& meeting = meetings[static_cast<std::size_t>(ready.warp / warps_each)];
      meeting.at = std::max(meeting.at, ready.at + s.clocks);
      meeting.warps.push_back(ready.warp);
      if (static_cast<int>(meeting.warps.size()) == warps_each) {
        for (int w : meeting.warps) queue.push({meeting.at, w});
        meeting = {};
      }
      continue;
    }
    const int pieces = pieces_of(s, multiplies), piece = warp.piece;
    const auto part = [&](Clocks n) { return n * (piece + 1) / pieces - n * piece / pieces; };
    const Clocks start = std::max(ready.at, issue_free), issue = part(issue_clocks(s, multiplies));
    issue_free = start + issue;
    Clocks done = start + std::max(issue, part(s.clocks));
    const auto use = [&](Clocks& free, Clocks clocks) {
      if (clocks == 0) return;
      free = std::max(free, start) + clocks;
      done = std::max(done, free);
    };
    use(alu_free, part(Clocks{s.alu} * m_alu_clocks));
    use(mufu_free, part(Clocks{s.mufu} * m_mufu_clocks));
    use(mma_free, part(mma_clocks(s)));
    if (piece == 0 && s.wgmma == 0 && s.wavefronts > 0) {
      pipe_free = std::max(pipe_free, start) + wavefront_clocks(s, sharers);
      if (s.prefetches || s.waits > 0) {
        Clocks& need = warp.need[s.prefetches ? 1 : 0];
        need = std::max(need, pipe_free + m_latency);
      }
    }
    if (piece + 1 < pieces) {
      ++warp.piece;
      queue.push({done, ready.warp});
      continue;
    }
    warp.piece = 0;
    ++warp.next;
    if (s.waits > 0) done += (s.waits - (s.wavefronts > 0 ? 1 : 0)) * m_latency;
    if (s.wgmma > 0) {
      if (s.product == Product::after_next) {
        done = std::max(done, warp.left_until);
        warp.deferred = &s;
      } else if (s.product == Product::with_last && warp.follower == &s) {
        done = std::max(done, warp.left_until);
      } else {
        const Clocks end = multiply(s, start);
        if (s.product != Product::left) done = std::max(done, end);
        if (warp.deferred) warp.left_until = multiply(*std::exchange(warp.deferred, nullptr), start);
        warp.follower = nullptr;
        for (std::size_t n = warp.next; n < stretches.size() && !warp.follower; ++n) {
          if (stretches[n].wgmma == 0) continue;
          if (stretches[n].product != Product::with_last) break;
          warp.follower = &stretches[n];
          warp.left_until = multiply(stretches[n], start);
        }
      }
    }
    const Clocks next = std::max(done, warp.need[0]);
    warp.need = {warp.need[1], 0};
    queue.push({next, ready.warp});
  }
  return std::max({last, issue_free, alu_free, mufu_free, mma_free, pipe_free, tensor_free});
}

}  // namespace flashscope
