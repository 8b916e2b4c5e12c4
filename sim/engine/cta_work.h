// What a CTA does, with everything worked out that does not depend on when it runs.
//
// Heads are alike: where their bytes start on sectors, the CTAs of one place in their heads share one CtaWork, and only
// the blocks that they touch lie a few heads further on.
#pragma once
#include <memory>
#include <vector>

#include "sim/engine/blocks.h"
#include "sim/engine/core_times.h"
#include "sim/engine/program.h"
#include "sim/engine/speeds.h"
#include "sim/schedule/schedule.h"

namespace flashscope {

/// One operation.
struct Step {
  enum class Kind : std::uint8_t {
    barrier,
    wait,
    core,  // on the SM
    load,
    start,  // a load that the CTA does not wait for
    store,
  };
  Kind kind = Kind::barrier;
  Tensor tensor = Tensor::Q;
  Reason reason = Reason::barrier;  // when the SM itself is what takes longest
  int pending = 0;
  Picoseconds alone = 0;               // on the SM, see CoreTime
  const Picoseconds* share = nullptr;  // by resident CTAs, see CoreTime
  std::int64_t round_trips = 1;
  Picoseconds port = 0, l2 = 0;  // on the way to and from L2
  std::int64_t fill_bytes = 0;   // store: of each block, see TileOp
  BlockMap::Region blocks;       // load, store: of the first repetition and of the head it was written for
  std::int64_t block_step = 0;   // from one repetition to the next
  std::int64_t query_head_step = 0, kv_head_step = 0;  // from one head to the next; one of the two is 0

  bool is_private() const { return kind <= Kind::wait; }  // touches nothing that other CTAs use
  bool is_shared() const { return kind >= Kind::load; }   // touches what CTAs of other SMs use
};

/// A segment of a program (program.h) in that form.
struct StepRun {
  std::vector<Step> steps;
  std::int64_t times = 1;
};

struct CtaWork {
  Program program;  // the operations themselves, for the trace
  std::vector<StepRun> runs;
};

/// A CTA's work, and the heads by which its blocks are further on than those that the work names.
struct PlacedWork {
  std::shared_ptr<const CtaWork> work;
  std::int64_t query_heads = 0, kv_heads = 0;
};

/// The work of the CTAs of one kernel.
class CtaWorks {
 public:
  CtaWorks(const Schedule& schedule, const Speeds& speeds, const BlockMap& blocks, CoreTimes& core_times)
      : m_schedule(schedule), m_speeds(speeds), m_blocks(blocks), m_core_times(core_times) {}

  void start_kernel(int kernel);
  PlacedWork of(std::int64_t cta);
  /// The operation of a step as the CTA performs it in repetition `n`.
  TileOp operation(const PlacedWork& placed, std::size_t run, std::size_t step, std::int64_t n) const;

 private:
  std::shared_ptr<const CtaWork> make(std::int64_t cta);
  Step prepared(const TileOp& op, const Repeat& repeat, const CoreTime& core) const;

  const Schedule& m_schedule;
  const Speeds& m_speeds;
  const BlockMap& m_blocks;
  CoreTimes& m_core_times;
  int m_kernel = 0;
  std::vector<std::shared_ptr<const CtaWork>> m_kept;  // by place in the head; empty: none are kept
};

}  // namespace flashscope
