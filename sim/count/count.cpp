#include "sim/count/count.h"

#include "sim/error.h"

namespace flashscope {
namespace {

/// Asks now and then whether the count is still wanted.
class Patience {
 public:
  Patience(const std::function<bool(double)>& progress, std::int64_t ctas)
      : m_progress(progress), m_ctas(ctas), m_left(progress ? kOpsBetween : INT64_MAX) {}
  void op() {
    if (--m_left == 0) ask();
  }
  void cta_done() { ++m_done; }

 private:
  static constexpr std::int64_t kOpsBetween = 4096;

  void ask() {
    m_left = kOpsBetween;
    if (!m_progress(static_cast<double>(m_done) / static_cast<double>(m_ctas)))
      throw Error(ErrorKind::internal, "cancelled");
  }

  const std::function<bool(double)>& m_progress;
  const std::int64_t m_ctas;  // that are walked
  std::int64_t m_done = 0, m_left;
};

class CountSink final : public OpSink {
 public:
  CountSink(const Schedule& schedule, KernelCount& into, Patience& patience)
      : m_schedule(schedule), m_into(into), m_patience(patience) {}
  void set_times(std::int64_t times) { m_times = times; }

  void op(const TileOp& op) override {
    m_patience.op();
    add_op(m_schedule, op, m_times * m_repeat, m_into);
  }
  bool collapses() const override { return true; }
  bool only_counts() const override { return true; }
  void begin_repeat(const Repeat& repeat) override { m_repeat = repeat.times; }
  void end_repeat() override { m_repeat = 1; }

 private:
  const Schedule& m_schedule;
  KernelCount& m_into;
  Patience& m_patience;
  std::int64_t m_times = 1;   // CTAs alike
  std::int64_t m_repeat = 1;  // tiles alike
};

void add(const KernelCount& part, KernelCount& into) {
  const auto add_traffic = [](const SmTraffic& a, SmTraffic& b) {
    b.read += a.read;
    b.write += a.write;
    b.sector_read += a.sector_read;
    b.sector_write += a.sector_write;
  };
  add_traffic(part.sm, into.sm);
  for (int t = 0; t < kNumTensors; ++t) add_traffic(part.tensors[t], into.tensors[t]);
  into.flops += part.flops;
  into.flops_executed += part.flops_executed;
  into.exps += part.exps;
  into.ops += part.ops;
}

}  // namespace

void add_op(const Schedule& schedule, const TileOp& op, std::int64_t times, KernelCount& into) {
  into.ops += times;
  const bool moves = op.op == Op::load || op.op == Op::store;  // their bytes are of all heads
  if (!moves) times *= op.heads;
  const Range rows = {op.row, op.row + op.rows}, cols = {op.col, op.col + op.cols};
  switch (op.op) {
    case Op::load:
    case Op::store:
      for (SmTraffic* traffic : {&into.sm, &into.tensors[static_cast<int>(op.tensor)]}) {
        (op.op == Op::load ? traffic->read : traffic->write) += times * op.bytes;
        (op.op == Op::load ? traffic->sector_read : traffic->sector_write) += times * op.sectors * kSectorBytes;
      }
      break;
    case Op::scores:
      if (schedule.problem().pass == Pass::backward) {  // recomputed: counted with dV below
        into.flops_executed += times * 2 * op.rows * std::int64_t{op.cols} * op.depth;
        break;
      }
      [[fallthrough]];
    case Op::weighted_sum: {
      const bool is_scores = op.op == Op::scores;
      const std::int64_t width = is_scores ? op.depth : op.cols;  // columns of head_dim that the product covers
      const int bc = schedule.tile().bc;
      const Range keys = is_scores ? cols : Range{op.j * bc, op.j * bc + op.depth};
      into.flops_executed += times * 2 * op.rows * std::int64_t{op.cols} * op.depth;
      into.flops += times * 2 * width * kept_pairs_in(schedule.problem().mask(), rows, keys);
      break;
    }
    case Op::d_probabilities: into.flops_executed += times * 2 * op.rows * std::int64_t{op.cols} * op.depth; break;
    case Op::gradient_sum: {
      const bool by_key = layout_of(op.tensor) == Layout::by_key;
      into.flops_executed += times * 2 * op.rows * std::int64_t{op.cols} * op.depth;
      // Five products make the backward pass, however often an algorithm runs S and dP: S counts with the dV that it
      // leads to, dP with dK.
      const TileShape& tile = schedule.tile();
      const int along = by_key ? op.i * tile.br : op.j * tile.bc;
      const Range contracted = {along, along + op.depth};
      into.flops += times * (by_key ? 4 : 2) * op.cols *
                    kept_pairs_in(schedule.problem().mask(), by_key ? contracted : rows, by_key ? rows : contracted);
      break;
    }
    case Op::probabilities: into.exps += times * kept_pairs_in(schedule.problem().mask(), rows, cols); break;
    case Op::combine: into.exps += times * schedule.tile().splits * op.rows; break;  // one a split: its weight
    case Op::softmax: into.exps += times * kept_pairs_in(schedule.problem().mask(), rows, cols); break;
    case Op::online_softmax:
      into.exps += times * (kept_pairs_in(schedule.problem().mask(), rows, cols) + op.rows);
      break;
    case Op::quantize:
    case Op::clear_state:
    case Op::clear_gradient:
    case Op::row_dot:
    case Op::d_scores:
    case Op::mask:
    case Op::undo_normalize:
    case Op::normalize:
    case Op::log_sum_exp:
    case Op::barrier:
    case Op::wait: break;
  }
}

Count count(const Schedule& schedule, const std::function<bool(double)>& progress) {
  const bool heads_alike = schedule.sector_aligned();
  const auto heads_walked = [&](const KernelLaunch& launch) { return heads_alike && launch.heads > 0 ? 1 : launch.heads; };
  std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> classes;
  std::int64_t ctas = 0;
  for (int k = 0; k < static_cast<int>(schedule.kernels().size()); ++k) {
    classes.push_back(schedule.cta_classes(k));
    ctas += static_cast<std::int64_t>(classes.back().size()) * heads_walked(schedule.kernels()[static_cast<std::size_t>(k)]);
  }
  Patience patience(progress, ctas);
  Count result;
  for (int k = 0; k < static_cast<int>(schedule.kernels().size()); ++k) {
    const KernelLaunch& launch = schedule.kernels()[static_cast<std::size_t>(k)];
    KernelCount& kernel = result.kernels.emplace_back();
    CountSink sink(schedule, kernel, patience);
    for (const auto& [inner, alike] : classes[static_cast<std::size_t>(k)]) {
      sink.set_times(alike * (heads_alike ? launch.heads : 1));
      for (int head = 0; head < heads_walked(launch); ++head) {
        schedule.walk(k, head * launch.ctas_per_head + inner, sink);
        patience.cta_done();
      }
    }
    add(kernel, result.total);
  }
  return result;
}

}  // namespace flashscope
