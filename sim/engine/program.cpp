#include "sim/engine/program.h"

#include <algorithm>

namespace flashscope {
namespace {

/// The share of the columns that `op` has in turn `index` of `turns`: whole blocks, so many columns wide.
TileOp narrowed(TileOp op, int index, int turns, int block_cols) {
  const int all = op.cols, blocks = num_tiles(all, block_cols);
  if (all == 0) return op;
  const auto edge = [&](int n) {
    return static_cast<int>(std::min<std::int64_t>(all, std::int64_t{blocks} * n / turns * block_cols));
  };
  const int begin = edge(index), end = edge(index + 1);
  op.col += begin;
  op.cols = end - begin;
  for (std::int64_t* sum : {&op.bytes, &op.sectors, &op.fill_bytes}) *sum = *sum * end / all - *sum * begin / all;
  return op;
}

class ProgramSink final : public OpSink {
 public:
  ProgramSink(int bc, int score_tiles) : m_bc(bc), m_block_cols(bc * score_tiles) {}
  bool collapses() const override { return true; }
  void op(const TileOp& op) override {
    if (m_program.empty() || m_closed) m_program.push_back({});
    m_closed = false;
    m_program.back().ops.push_back(op);
  }
  void begin_repeat(const Repeat& repeat) override {
    m_program.emplace_back().repeat = repeat;
    m_closed = false;
  }
  void end_repeat() override { m_closed = true; }
  void begin_turns(const Turns& turns) override {
    m_program.push_back({});
    m_turns = turns;
    m_closed = false;
  }
  void end_turns() override {
    const std::vector<TileOp> whole = std::move(m_program.back().ops);
    m_program.pop_back();
    const int rows = whole.front().rows;
    const int turns = std::max(1, m_turns.rows > 0 ? num_tiles(rows, m_turns.rows)
                                                   : num_tiles(whole.front().cols, m_turns.key_tiles * m_bc));
    for (int index = 0; index < turns; ++index) {
      Segment& segment = m_program.emplace_back();
      for (TileOp op : whole) {
        segment.ops.push_back(narrowed(op, index, turns, m_block_cols));
        op.rows = min_int(m_turns.rows, rows - index * m_turns.rows);
        if (m_turns.rows > 0) segment.rows_of_turn.push_back(op);
      }
    }
    m_closed = true;
  }
  Program take() { return std::move(m_program); }

 private:
  const int m_bc, m_block_cols;
  Turns m_turns;
  Program m_program;
  bool m_closed = false;  // the last segment takes no more operations
};

}  // namespace

Program program_of(const Schedule& schedule, int kernel, std::int64_t cta, int score_tiles) {
  ProgramSink sink(schedule.tile().bc, score_tiles);
  schedule.walk(kernel, cta, sink);
  return sink.take();
}

TileOp advanced(TileOp op, const Repeat& repeat, std::int64_t repetition, const TileShape& tile) {
  const int n = static_cast<int>(repetition) * repeat.step;
  const Axis axis = repeat.axis;
  if (axis == Axis::i)
    op.i += n;
  else
    op.j += n;
  if (op.op == Op::barrier || op.op == Op::wait) return op;  // covers no region
  const bool moves = op.op == Op::load || op.op == Op::store;
  const bool owned = op.op == Op::clear_gradient || op.op == Op::gradient_sum;  // rows are those of `tensor`
  const bool by_key = (moves || owned) && layout_of(op.tensor) == Layout::by_key;
  const bool over_keys = op.op == Op::scores || op.op == Op::mask || op.op == Op::online_softmax ||
                         op.op == Op::probabilities || op.op == Op::d_probabilities || op.op == Op::d_scores ||
                         (moves && layout_of(op.tensor) == Layout::scores);
  if (moves && is_scale(layout_of(op.tensor))) {
    if (axis == (layout_of(op.tensor) == Layout::key_tile ? Axis::j : Axis::i)) op.row += n;
    return op;
  }
  if (axis == Axis::i && !by_key) op.row += n * tile.br;
  if (axis == Axis::j && by_key) op.row += n * tile.bc;
  if (axis == Axis::j && over_keys) op.col += n * tile.bc;
  return op;
}

}  // namespace flashscope
