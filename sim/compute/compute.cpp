// The executor: a sink of tile operations that carries them out on numbers. It knows the operations, no algorithm.
#include "sim/compute/compute.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>

#include "sim/compute/chip.h"
#include "sim/error.h"
#include "sim/schedule/algorithms.h"

namespace flashscope {
namespace {

/// One run. `Real` is the type of the arithmetic. Sums run in index order, so a result depends on the schedule alone.
template <class Real>
class Executor final : public OpSink {
 public:
  Executor(const Schedule& schedule, const AttentionInputs& inputs, const ComputeOptions& options)
      : m_schedule(schedule), m_inputs(inputs), m_options(options), m_memory(schedule) {
    for (auto [tensor, array] : {std::pair{Tensor::Q, &inputs.q}, {Tensor::K, &inputs.k}, {Tensor::V, &inputs.v}})
      for (int head = 0; head < array->heads; ++head)
        for (int row = 0; row < array->rows; ++row)
          for (int col = 0; col < array->cols; ++col) m_memory.write(tensor, head, row, col, array->at(head, row, col));
  }

  AttentionOutputs run() {
    for (int kernel = 0; kernel < static_cast<int>(m_schedule.kernels().size()); ++kernel) {
      for (m_cta = 0; m_cta < m_schedule.kernels()[static_cast<std::size_t>(kernel)].ctas(); ++m_cta) {
        m_chip = Chip<Real>();  // nothing of the CTA before is left
        m_follows_online_softmax = false;
        m_schedule.walk(kernel, m_cta, *this);
      }
    }
    return {output(Tensor::O), output(Tensor::LSE)};
  }

  void op(const TileOp& op) override {
    switch (op.op) {
      case Op::load: return m_memory.load(op.tensor, op.head, rows(op), cols(op), m_chip.place(op.tensor));
      case Op::store:
        return m_memory.store(op.tensor, op.head, rows(op), cols(op), m_chip.need(op, op.tensor, rows(op), cols(op)));
      case Op::clear_state: return clear_state(op);
      case Op::scores: return scores(op);
      case Op::mask: return mask(op);
      case Op::softmax: return softmax(op);
      case Op::online_softmax: return online_softmax(op);
      case Op::weighted_sum: return weighted_sum(op);
      case Op::undo_normalize: return undo_normalize(op);
      case Op::normalize: return normalize(op);
      case Op::log_sum_exp: return log_sum_exp(op);
      case Op::barrier: return;  // operations already run one after the other
    }
  }

 private:
  static constexpr Real kNegativeInfinity = -std::numeric_limits<Real>::infinity();

  static Range rows(const TileOp& op) { return {op.row, op.row + op.rows}; }
  static Range cols(const TileOp& op) { return {op.col, op.col + op.cols}; }
  static constexpr Range kStatistic = {0, 1};  // columns of m, l, LSE

  /// exp(x - maximum), and 0 for x = -inf even where the maximum is -inf too: nothing seen yet weighs nothing.
  static Real weight(Real x, Real maximum) { return x == kNegativeInfinity ? Real(0) : std::exp(x - maximum); }

  void clear_state(const TileOp& op) {
    m_chip.place(Tensor::O).reset(rows(op), cols(op), 0);
    m_chip.place(Tensor::M).reset(rows(op), kStatistic, kNegativeInfinity);
    m_chip.place(Tensor::L).reset(rows(op), kStatistic, 0);
  }

  void scores(const TileOp& op) {
    const Range depth = {0, op.depth};
    Tile<Real>& q = m_chip.need(op, Tensor::Q, rows(op), depth);
    Tile<Real>& k = m_chip.need(op, Tensor::K, cols(op), depth);
    Tile<Real>& s = m_chip.place(Tensor::S);
    s.reset(rows(op), cols(op), 0);
    const Real scale = static_cast<Real>(m_schedule.problem().scale());
    for (int row = op.row; row < op.row + op.rows; ++row) {
      Real* const sums = s.row(row);
      // Keys innermost: neighbouring sums do not wait for each other, and each still adds up in the order of d.
      for (int d = 0; d < op.depth; ++d) {
        const Real query = q.at(row, d);
        for (int key = 0; key < op.cols; ++key) sums[key] += query * k.at(op.col + key, d);
      }
      for (int key = 0; key < op.cols; ++key) sums[key] *= scale;
    }
  }

  bool is_pair_kept(const TileOp& op, int row, int key) const {
    if (!is_kept(m_mask, row, key)) return false;
    const Array& keep = m_inputs.keep;
    return !m_schedule.problem().dense_mask || keep.at(keep.heads == 1 ? 0 : op.head, row, key) != 0;
  }

  void mask(const TileOp& op) {
    Tile<Real>& s = m_chip.need(op, Tensor::S, rows(op), cols(op));
    for (int row = op.row; row < op.row + op.rows; ++row)
      for (int key = op.col; key < op.col + op.cols; ++key)
        if (!is_pair_kept(op, row, key)) s.at(row, key) = kNegativeInfinity;
  }

  void softmax(const TileOp& op) {
    // A stored -inf has become -448 where the format has no infinity, and would count as a score.
    if (!format_of(m_schedule.problem().dtype).has_infinity) mask(op);
    Tile<Real>& s = m_chip.need(op, Tensor::S, rows(op), cols(op));
    Tile<Real>& m = m_chip.place(Tensor::M);
    Tile<Real>& l = m_chip.place(Tensor::L);
    m.reset(rows(op), kStatistic, kNegativeInfinity);
    l.reset(rows(op), kStatistic, 0);
    for (int row = op.row; row < op.row + op.rows; ++row) {
      Real& maximum = m.at(row, 0);
      Real& sum = l.at(row, 0);
      for (int key = op.col; key < op.col + op.cols; ++key) maximum = std::max(maximum, s.at(row, key));
      for (int key = op.col; key < op.col + op.cols; ++key) {
        s.at(row, key) = weight(s.at(row, key), maximum);
        sum += s.at(row, key);
      }
      for (int key = op.col; key < op.col + op.cols; ++key) s.at(row, key) = sum == 0 ? Real(0) : s.at(row, key) / sum;
    }
  }

  void online_softmax(const TileOp& op) {
    Tile<Real>& s = m_chip.need(op, Tensor::S, rows(op), cols(op));
    Tile<Real>& m = m_chip.need(op, Tensor::M, rows(op), kStatistic);
    Tile<Real>& l = m_chip.need(op, Tensor::L, rows(op), kStatistic);
    const Range dims = {0, m_schedule.problem().head_dim};
    Tile<Real>& acc = m_chip.need(op, Tensor::O, rows(op), dims);
    m_rescale.clear();
    for (int row = op.row; row < op.row + op.rows; ++row) {
      const Real old_maximum = m.at(row, 0);
      Real maximum = old_maximum;
      for (int key = op.col; key < op.col + op.cols; ++key) maximum = std::max(maximum, s.at(row, key));
      Real sum = 0;
      for (int key = op.col; key < op.col + op.cols; ++key) {
        s.at(row, key) = weight(s.at(row, key), maximum);
        sum += s.at(row, key);
      }
      const Real rescale = weight(old_maximum, maximum);
      m.at(row, 0) = maximum;
      l.at(row, 0) = rescale * l.at(row, 0) + sum;
      for (int d = 0; d < dims.end; ++d) acc.at(row, d) *= rescale;
      m_rescale.push_back(rescale);
    }
    m_follows_online_softmax = true;
  }

  void weighted_sum(const TileOp& op) {
    const int first_key = op.j * m_schedule.tile().bc;
    const Range keys = {first_key, first_key + op.depth};
    Tile<Real>& p = m_chip.need(op, Tensor::P, rows(op), keys);
    Tile<Real>& v = m_chip.need(op, Tensor::V, keys, cols(op));
    Tile<Real>& acc = m_chip.need(op, Tensor::O, rows(op), cols(op));
    for (int row = op.row; row < op.row + op.rows; ++row) {
      Real* const sums = acc.row(row) + (op.col - acc.cols().begin);
      for (int key = keys.begin; key < keys.end; ++key) {
        const Real probability = p.at(row, key);
        const Real* const value = v.row(key) + (op.col - v.cols().begin);
        for (int d = 0; d < op.cols; ++d) sums[d] += probability * value[d];
      }
    }
    if (m_follows_online_softmax && m_options.after_tile) m_options.after_tile(state(op));
    m_follows_online_softmax = false;
  }

  void undo_normalize(const TileOp& op) {
    Tile<Real>& acc = m_chip.need(op, Tensor::O, rows(op), cols(op));
    Tile<Real>& l = m_chip.need(op, Tensor::L, rows(op), kStatistic);
    for (int row = op.row; row < op.row + op.rows; ++row)
      for (int d = op.col; d < op.col + op.cols; ++d) acc.at(row, d) *= l.at(row, 0);
  }

  void normalize(const TileOp& op) {
    Tile<Real>& acc = m_chip.need(op, Tensor::O, rows(op), cols(op));
    Tile<Real>& l = m_chip.need(op, Tensor::L, rows(op), kStatistic);
    for (int row = op.row; row < op.row + op.rows; ++row)
      for (int d = op.col; d < op.col + op.cols; ++d)
        acc.at(row, d) = l.at(row, 0) == 0 ? Real(0) : acc.at(row, d) / l.at(row, 0);
  }

  void log_sum_exp(const TileOp& op) {
    Tile<Real>& m = m_chip.need(op, Tensor::M, rows(op), kStatistic);
    Tile<Real>& l = m_chip.need(op, Tensor::L, rows(op), kStatistic);
    Tile<Real>& lse = m_chip.place(Tensor::LSE);
    lse.reset(rows(op), kStatistic, kNegativeInfinity);
    for (int row = op.row; row < op.row + op.rows; ++row)
      if (l.at(row, 0) != 0) lse.at(row, 0) = m.at(row, 0) + std::log(l.at(row, 0));
  }

  TileState state(const TileOp& op) {
    TileState state;
    state.cta = m_cta;
    state.head = op.head;
    state.i = op.i;
    state.j = op.j;
    state.acc = Array(1, op.rows, op.cols);
    state.rescale.assign(m_rescale.begin(), m_rescale.end());
    for (int row = 0; row < op.rows; ++row) {
      state.m.push_back(m_chip.need(op, Tensor::M, rows(op), kStatistic).at(op.row + row, 0));
      state.l.push_back(m_chip.need(op, Tensor::L, rows(op), kStatistic).at(op.row + row, 0));
      for (int d = 0; d < op.cols; ++d) state.acc.at(0, row, d) = m_chip.place(Tensor::O).at(op.row + row, op.col + d);
    }
    return state;
  }

  Array output(Tensor tensor) const {
    const TensorShape shape = shape_of(tensor, m_schedule.problem());
    Array array(shape.heads, shape.rows, shape.cols);
    std::copy(m_memory.values(tensor).begin(), m_memory.values(tensor).end(), array.values.begin());
    return array;
  }

  const Schedule& m_schedule;
  const AttentionInputs& m_inputs;
  const ComputeOptions& m_options;
  const MaskShape m_mask = m_schedule.problem().mask();
  GlobalMemory<Real> m_memory;
  Chip<Real> m_chip;
  std::int64_t m_cta = 0;
  std::vector<Real> m_rescale;            // of the last online_softmax, one a row
  bool m_follows_online_softmax = false;  // until the weighted_sum that belongs to it
};

}  // namespace

AttentionOutputs compute(const Schedule& schedule, const AttentionInputs& inputs, const ComputeOptions& options) {
  validate(schedule.problem(), inputs);
  try {
    if (schedule.problem().dtype == DType::fp64) return Executor<double>(schedule, inputs, options).run();
    return Executor<float>(schedule, inputs, options).run();
  } catch (const std::bad_alloc&) {
    std::int64_t elements = 0;
    for (Tensor tensor : schedule.tensors()) {
      const TensorShape shape = shape_of(tensor, schedule.problem());
      elements += std::int64_t{shape.rows} * shape.cols * shape.heads;
    }
    const std::int64_t bytes = elements * (schedule.problem().dtype == DType::fp64 ? 8 : 4);
    throw Error(ErrorKind::resource, "computing " + schedule.algorithm() + " needs " + std::to_string(bytes) +
                                         " bytes of memory, more than this machine gave; reduce batch, heads or "
                                         "seqlen, or choose a tiled algorithm");
  }
}

namespace {

/// Head `head` of an array, as an array of its own.
Array one_head(const Array& array, int head) {
  Array part(1, array.rows, array.cols);
  const auto begin = array.values.begin() + static_cast<std::ptrdiff_t>(part.values.size()) * head;
  part.values.assign(begin, begin + static_cast<std::ptrdiff_t>(part.values.size()));
  return part;
}

}  // namespace

AttentionOutputs same_precision_attention(const AttentionProblem& problem, const AttentionInputs& inputs) {
  validate(problem, inputs);
  AttentionProblem single = problem;
  single.batch = single.heads = single.kv_heads = 1;
  const auto schedule = make_schedule("three_pass", single);
  AttentionOutputs all{Array(problem.num_heads(), problem.seqlen_q, problem.head_dim),
                       Array(problem.num_heads(), problem.seqlen_q, 1)};
  for (int head = 0; head < problem.num_heads(); ++head) {
    const int kv_head =
        head / problem.heads * problem.kv_heads + kv_head_of(head % problem.heads, problem.heads, problem.kv_heads);
    AttentionInputs part{one_head(inputs.q, head), one_head(inputs.k, kv_head), one_head(inputs.v, kv_head), {}};
    if (problem.dense_mask) part.keep = one_head(inputs.keep, inputs.keep.heads == 1 ? 0 : head);
    const AttentionOutputs out = compute(*schedule, part);
    const auto put = [head](const Array& from, Array& into) {
      std::copy(from.values.begin(), from.values.end(),
                into.values.begin() + static_cast<std::ptrdiff_t>(from.values.size()) * head);
    };
    put(out.o, all.o);
    put(out.lse, all.lse);
  }
  return all;
}

}  // namespace flashscope
