// What a CTA does, with everything worked out that does not depend on when it runs.
//
// Heads are alike: where their bytes start on sectors, the CTAs of one place in their heads share one CtaWork, and only
// the blocks that they touch lie a few heads further on.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "sim/engine/blocks.h"
#include "sim/engine/core_times.h"
#include "sim/engine/grain.h"
#include "sim/engine/hot_lines.h"
#include "sim/engine/program.h"
#include "sim/engine/speeds.h"
#include "sim/schedule/schedule.h"

namespace flashscope {

/// One operation; with a coarse grain the same operation on several neighbouring tiles.
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
  int tiles = 1;     // how often it is performed
  int barriers = 0;  // that follow it at once
  bool is_scores = false;
  Picoseconds alone = 0;               // on the SM, see CoreTime
  const Picoseconds* share = nullptr;  // by resident CTAs, see CoreTime
  std::int64_t round_trips = 1;
  Picoseconds port = 0, l2 = 0;  // on the way to and from L2, of all tiles
  std::int64_t bytes = 0;        // load, store: of the region
  std::int64_t fill_bytes = 0;   // store: of each block, see TileOp
  BlockMap::Region blocks;       // load, store: of the first repetition and of the head it was written for
  std::int64_t part_bytes = 0;   // moved of each block; 0: all of it, or of its `block_rows` rows `part_rows`
  int part_rows = 1, block_rows = 1;
  LinesOfBlock hot;              // load: lines that all warps ask for; none but in a naive kernel
  Picoseconds slice = 0;         // of an L2 slice, for each of them
  int turns = 1;                 // that they are asked for in, a sector of each row after the other
  std::int64_t block_step = 0;   // from one repetition to the next: blocks, or tiles of blocks of `tiles_in_block`
  int tiles_in_block = 1, first_tile = 0;  // of its block, of the first repetition
  // store: a part of a sum in global memory; its query head, query tile of the first repetition and key tile.
  bool adds = false;
  int head = 0, query_tile = 0, query_tile_step = 0, key_tile = 0;
  std::int64_t query_head_step = 0, kv_head_step = 0, batch_step = 0;  // from one to the next; all but one are 0

  /// Of repetition `n`, from `blocks`.
  std::int64_t blocks_on(std::int64_t n) const {
    const std::int64_t on = first_tile + n * block_step;
    return tiles_in_block == 1 ? on : on >= 0 ? on / tiles_in_block : -((tiles_in_block - 1 - on) / tiles_in_block);
  }
  bool is_private() const { return kind <= Kind::wait; }  // touches nothing that other CTAs use
  bool is_shared() const { return kind >= Kind::load; }   // touches what CTAs of other SMs use
};

/// A segment of a program (program.h) in that form, or, with a coarse grain, a part of it.
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
  std::int64_t query_heads = 0, kv_heads = 0, batches = 0;
};

/// The work of the CTAs of one kernel.
class CtaWorks {
 public:
  CtaWorks(const Schedule& schedule, const Speeds& speeds, const BlockMap& blocks, const Grain& grain,
           CoreTimes& core_times)
      : m_schedule(schedule), m_speeds(speeds), m_blocks(blocks), m_grain(grain), m_core_times(core_times) {}

  /// `one_by_one`: each operation is a step of its own, as a trace wants it. `between` is called some thousand times while the
  /// work of one long CTA is worked out (flash_v1's can have a million steps); what it throws ends that.
  void start_kernel(int kernel, bool one_by_one, std::function<void()> between = {});
  PlacedWork of(std::int64_t cta);
  /// The operation of a step as the CTA performs it in repetition `n`.
  TileOp operation(const PlacedWork& placed, std::size_t run, std::size_t step, std::int64_t n) const;

 private:
  std::shared_ptr<const CtaWork> make(std::int64_t cta);
  /// Repetitions [first, first + repetitions) of a segment as one, `times` times over.
  StepRun run_of(const Segment& segment, std::int64_t first, int repetitions, std::int64_t times);
  Step prepared(const TileOp& op, const Repeat& repeat, int repetitions, const CoreTime& core) const;

  const Schedule& m_schedule;
  const Speeds& m_speeds;
  const BlockMap& m_blocks;
  const Grain& m_grain;
  CoreTimes& m_core_times;
  int m_kernel = 0;
  bool m_one_by_one = false;
  std::function<void()> m_between;
  std::vector<std::shared_ptr<const CtaWork>> m_kept;  // by place in the head; empty: none are kept
};

}  // namespace flashscope
