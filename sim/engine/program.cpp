#include "sim/engine/program.h"

namespace flashscope {
namespace {

class ProgramSink final : public OpSink {
 public:
  bool collapses() const override { return true; }
  void op(const TileOp& op) override {
    if (m_program.empty() || m_closed) m_program.push_back({});
    m_closed = false;
    m_program.back().ops.push_back(op);
  }
  void begin_repeat(const Repeat& repeat) override {
    m_program.push_back({{}, repeat});
    m_closed = false;
  }
  void end_repeat() override { m_closed = true; }
  Program take() { return std::move(m_program); }

 private:
  Program m_program;
  bool m_closed = false;  // the last segment takes no more operations
};

}  // namespace

Program program_of(const Schedule& schedule, int kernel, std::int64_t cta) {
  ProgramSink sink;
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
