#include "sim/engine/cta_work.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace flashscope {

/// Places in a head of which the work is kept: a few kilobytes each. three_pass has one for each tile of scores, and
/// beyond this a CTA's work is worked out when it starts.
constexpr std::int64_t kMostKept = 1 << 14;

void CtaWorks::start_kernel(int kernel, bool one_by_one, std::function<void()> between) {
  m_kernel = kernel;
  m_one_by_one = one_by_one;
  m_between = std::move(between);
  const KernelLaunch& launch = m_schedule.kernels()[static_cast<std::size_t>(kernel)];
  const bool keeps = m_schedule.sector_aligned() && launch.heads > 1 && launch.ctas_per_head <= kMostKept;
  m_kept.assign(keeps ? static_cast<std::size_t>(launch.ctas_per_head) : 0, nullptr);
}

PlacedWork CtaWorks::of(std::int64_t cta) {
  if (m_kept.empty()) return {make(cta), 0, 0, 0};
  const KernelLaunch& launch = m_schedule.kernels()[static_cast<std::size_t>(m_kernel)];
  const std::int64_t inner = cta % launch.ctas_per_head;
  std::shared_ptr<const CtaWork>& kept = m_kept[static_cast<std::size_t>(inner)];
  if (!kept) kept = make(inner);
  const AttentionProblem& p = m_schedule.problem();
  const std::int64_t head = m_schedule.first_head(m_kernel, cta);
  return {kept, head, head / (p.heads / p.kv_heads), head / p.heads};
}

std::shared_ptr<const CtaWork> CtaWorks::make(std::int64_t cta) {
  auto work = std::make_shared<CtaWork>();
  work->program = program_of(m_schedule, m_kernel, cta, m_grain.scores.tiles);
  for (const Segment& segment : work->program) {
    const std::int64_t times = segment.repeat.times;
    const int most = times > 1 ? m_grain.of_kernel(m_kernel) : 1;
    if (most == 1) {
      work->runs.push_back(run_of(segment, 0, 1, times));
      continue;
    }
    // A CTA starts and ends tile by tile: what nothing else hides is not longer than it is. Steps grow in between, each
    // between multiples of itself, so that CTAs that stream the same tiles take them in the same steps.
    const TileOp& op = segment.ops.front();
    const bool forwards = segment.repeat.step > 0;
    const std::int64_t at = segment.repeat.axis == Axis::i ? op.i : op.j;
    for (std::int64_t done = 0; done < times;) {
      const std::int64_t edge = forwards ? at + done : at + 1 - done;  // of the next tile, where it is entered
      const std::int64_t largest = std::max<std::int64_t>(1, std::min(done, (times - done) / 2));
      int together = most;
      while (edge % together != 0 || together > largest) together /= 2;
      const std::int64_t repeats =
          together == most ? std::max<std::int64_t>(1, (times - done) / most - 1) : 1;  // but the last: it ends in steps
      work->runs.push_back(run_of(segment, done, together, repeats));
      done += repeats * together;
    }
  }
  if (!m_one_by_one) work->program = {};
  return work;
}

StepRun CtaWorks::run_of(const Segment& segment, std::int64_t first, int repetitions, std::int64_t times) {
  if (m_between) m_between();
  StepRun run;
  run.times = times;
  const std::vector<const CoreTime*> cores = m_core_times.of(segment.rows_of_turn.empty() ? segment.ops : segment.rows_of_turn);
  for (std::size_t n = 0; n < segment.ops.size(); ++n) {
    const TileOp& op = segment.ops[n];
    if (op.op == Op::barrier && !m_one_by_one && !run.steps.empty()) {
      ++run.steps.back().barriers;
      continue;
    }
    const TileOp begins = first == 0 ? op : advanced(op, segment.repeat, first, m_schedule.tile());
    run.steps.push_back(prepared(begins, segment.repeat, repetitions, *cores[n]));
  }
  return run;
}

namespace {

/// The region of `op` and of the `repetitions` - 1 operations behind it.
TileOp widened(TileOp op, const Repeat& repeat, int repetitions, const TileShape& tile) {
  if (repetitions == 1) return op;
  const TileOp last = advanced(op, repeat, repetitions - 1, tile);
  const int rows = last.row - op.row, cols = last.col - op.col;
  op.row = std::min(op.row, last.row);
  op.col = std::min(op.col, last.col);
  op.rows += std::abs(rows);
  op.cols += std::abs(cols);
  return op;
}

}  // namespace

Step CtaWorks::prepared(const TileOp& op, const Repeat& repeat, int repetitions, const CoreTime& core) const {
  Step step;
  step.tiles = repetitions;
  step.tensor = op.tensor;
  step.reason = core.reason;
  step.pending = op.pending;
  step.is_scores = op.op == Op::scores;
  step.alone = core.alone;
  step.share = core.share.data();
  step.round_trips = core.round_trips;
  switch (op.op) {
    case Op::load:
    case Op::store: {
      step.kind = op.op == Op::store ? Step::Kind::store : op.starts ? Step::Kind::start : Step::Kind::load;
      step.port = std::max(m_speeds.port.cost(op.sectors * kSectorBytes * repetitions),
                           m_speeds.clock.cost(op.requests * repetitions));
      step.l2 = m_speeds.l2.cost(op.sectors * kSectorBytes * repetitions);
      step.bytes = op.bytes * repetitions;
      const TileOp wide = widened(op, repeat, repetitions, m_schedule.tile());
      step.blocks = m_blocks.region_of(wide);
      if (op.warps > 1) {
        const TensorShape shape = shape_of(op.tensor, m_schedule.problem(), m_schedule.tile());
        step.hot = {op.rows, static_cast<int>(shape.pitch()), op.col * shape.element_bytes,
                    op.cols * shape.element_bytes};
        if (op.requests > 0) {  // down the rows, column by column
          step.turns = std::max(1, step.hot.bytes / kSectorBytes);
          step.hot.bytes = std::min(step.hot.bytes, kSectorBytes);
        }
        const int lines = std::max(1, step.hot.count()) * step.turns;
        step.slice = m_speeds.l2.cost(op.sectors * kSectorBytes / lines * L2Slices::kSlices);
        step.port /= step.turns;
        step.l2 /= step.turns;
      }
      if (!m_blocks.is_whole_across(wide)) {
        step.part_bytes = step.bytes / std::max(1, step.blocks.size());
      } else if (!m_blocks.is_whole_down(wide)) {
        step.part_rows = wide.rows;
        step.block_rows = m_blocks.block_rows(op.tensor);
      }
      if (const int tiles = m_blocks.tiles_across(op.tensor); tiles > 1 && repeat.axis == Axis::j) {
        step.tiles_in_block = tiles;
        step.first_tile = wide.col / m_schedule.tile().bc % tiles;
      }
      if (op.adds) {
        step.adds = true;
        step.head = op.head;
        step.query_tile = op.i;
        step.query_tile_step = repeat.axis == Axis::i ? repeat.step * repetitions : 0;
        step.key_tile = op.j;
      }
      step.fill_bytes = op.fill_bytes * repetitions / std::max(1, step.blocks.size());
      step.block_step = m_blocks.step_of(op.tensor, repeat.axis) * repeat.step * repetitions;
      const std::int64_t head_step = m_blocks.head_step_of(op.tensor);
      if (layout_of(op.tensor) == Layout::page)
        step.batch_step = head_step;
      else if (is_of_keys(layout_of(op.tensor)))
        step.kv_head_step = head_step;
      else
        step.query_head_step = head_step * (is_split(op.tensor) ? m_schedule.tile().splits : 1);
      break;
    }
    case Op::barrier: step.kind = Step::Kind::barrier; break;
    case Op::wait: step.kind = Step::Kind::wait; break;
    default: step.kind = Step::Kind::core; break;
  }
  return step;
}

TileOp CtaWorks::operation(const PlacedWork& placed, std::size_t run, std::size_t step, std::int64_t n) const {
  const Segment& segment = placed.work->program[run];
  TileOp op = advanced(segment.ops[step], segment.repeat, n, m_schedule.tile());
  const bool moves = op.op == Op::load || op.op == Op::store;
  std::int64_t heads = placed.query_heads;
  if (moves && is_of_keys(layout_of(op.tensor))) heads = placed.kv_heads;
  if (moves && layout_of(op.tensor) == Layout::page) heads = placed.batches;
  if (moves && is_split(op.tensor)) heads *= m_schedule.tile().splits;
  op.head += static_cast<int>(heads);
  return op;
}

}  // namespace flashscope
