// How long the warps of an SM take for their work (sim/schedule/warp_work.h), alone and beside others.
//
// A small simulation of one warp scheduler and its share of the shared-memory pipe. Warps issue stretches in the order
// in which they become ready; a stretch holds the scheduler for as long as its instructions need to be issued (slots, FMA,
// register banks, products of mma.sync), and the warp also for as long as the other units that it uses (integer, special
// function, tensor cores) and its dependent instructions need; results from shared memory come after all earlier
// wavefronts and the latency. What one warp waits, others fill.
#pragma once
#include <cstdint>

#include "sim/machine/machine.h"
#include "sim/schedule/warp_work.h"

namespace flashscope {

/// Clocks of an SM.
using Clocks = std::int64_t;

class SmModel {
 public:
  explicit SmModel(const Machine& machine);

  /// Clocks from the common start of `ctas` CTAs of `warps_per_cta` warps to the end of the last, each with `work`.
  Clocks clocks(const WarpWork& work, int warps_per_cta, int ctas) const;

  /// The unit that is busy longest, for the picture's reason.
  enum class Unit { arithmetic, shared_memory, special_function, tensor };
  Unit busiest(const WarpWork& work) const;

 private:
  Clocks issue_clocks(const Stretch& stretch, bool beside_products) const;
  int pieces_of(const Stretch& stretch, bool beside_products) const;
  Clocks wavefront_clocks(const Stretch& stretch, int sharers) const;
  Clocks mma_clocks(const Stretch& stretch) const;
  Clocks wgmma_clocks(const Stretch& stretch) const;

  int m_schedulers;
  Clocks m_fma_clocks, m_alu_clocks, m_mufu_clocks;  // of a scheduler's units, per warp instruction
  int m_bank_reads_per_clock;
  int m_smem_bytes_per_clock;
  std::int64_t m_mma_flops_per_clock, m_tensor_flops_per_clock;  // of the SM: by mma.sync, by wgmma
  Clocks m_latency;
};

}  // namespace flashscope
