// The executor: a sink of tile operations that carries them out on numbers. It knows the operations, no algorithm.
#include "sim/compute/compute.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <new>

#include "sim/compute/chip.h"
#include "sim/compute/pages.h"
#include "sim/compute/quantize.h"
#include "sim/error.h"
#include "sim/compute/rounding.h"
#include "sim/schedule/algorithms.h"
#include "sim/schedule/fp8_rung.h"

namespace flashscope {
namespace {

bool uses(const Schedule& schedule, Tensor tensor) {
  const auto& tensors = schedule.tensors();
  return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
}

/// One run. `Real` is the type of the arithmetic. Sums run in index order, so a result depends on the schedule alone.
template <class Real>
class Executor final : public OpSink {
 public:
  Executor(const Schedule& schedule, const AttentionInputs& inputs, const ComputeOptions& options)
      : m_schedule(schedule), m_inputs(inputs), m_options(options), m_memory(schedule) {
    for (auto [tensor, array] : {std::pair{Tensor::Q, &inputs.q},
                                 {Tensor::K, &inputs.k},
                                 {Tensor::V, &inputs.v},
                                 {Tensor::dO, &inputs.d_out}}) {
      if (!uses(schedule, tensor)) continue;
      if (is_paged(tensor)) {
        write_pages(tensor, *array);
        continue;
      }
      for (int head = 0; head < array->heads; ++head)
        for (int row = 0; row < array->rows; ++row)
          for (int col = 0; col < array->cols; ++col) m_memory.write(tensor, head, row, col, array->at(head, row, col));
    }
  }

  /// Takes over what the forward pass left in global memory.
  void continue_from(const Executor& forward) {
    for (Tensor tensor : {Tensor::O, Tensor::LSE, Tensor::P})
      if (uses(m_schedule, tensor)) m_memory.copy(tensor, forward.m_memory);
  }

  void run() {
    for (int kernel = 0; kernel < static_cast<int>(m_schedule.kernels().size()); ++kernel) {
      for (m_cta = 0; m_cta < m_schedule.kernels()[static_cast<std::size_t>(kernel)].ctas(); ++m_cta) {
        m_chip = Chip<Real>();  // nothing of the CTA before is left
        m_under_way.clear();
        m_rescale.clear();
        m_schedule.walk(kernel, m_cta, *this);
      }
    }
  }

  Array output(Tensor tensor) const {
    const TensorShape shape = shape_of(tensor, m_schedule.problem(), m_schedule.tile());
    Array array(shape.heads, shape.rows, shape.cols);
    std::copy(m_memory.values(tensor).begin(), m_memory.values(tensor).end(), array.values.begin());
    return array;
  }

  void op(const TileOp& op) override {
    if (op.op == Op::load && op.starts) return m_under_way.push_back(op);
    if (op.op != Op::wait) return for_each_head(op);
    for (; m_under_way.size() > static_cast<std::size_t>(op.pending); m_under_way.pop_front())
      for_each_head(m_under_way.front());
  }

 private:
  /// Head by head: nothing passes from one to another.
  void for_each_head(const TileOp& op) {
    TileOp one = op;
    for (one.heads = 1; one.head < op.head + op.heads; ++one.head) {
      m_chip.select(one.head);
      perform(one);
    }
  }

  void perform(const TileOp& op) {
    switch (op.op) {
      case Op::load: return load(op);
      case Op::store:
        return op.adds ? m_memory.add(op.tensor, op.head, rows(op), cols(op), stored(op))
                       : m_memory.store(op.tensor, op.head, rows(op), cols(op), stored(op));
      case Op::clear_state: return clear_state(op);
      case Op::scores: return scores(op);
      case Op::mask: return mask(op);
      case Op::softmax: return softmax(op);
      case Op::online_softmax: return online_softmax(op);
      case Op::weighted_sum: return weighted_sum(op);
      case Op::undo_normalize: return undo_normalize(op);
      case Op::normalize: return normalize(op);
      case Op::log_sum_exp: return log_sum_exp(op);
      case Op::wait:
      case Op::barrier: return;  // operations already run one after the other
      case Op::clear_gradient: return m_chip.place(op.tensor).reset(rows(op), cols(op), 0);
      case Op::row_dot: return row_dot(op);
      case Op::probabilities: return probabilities(op);
      case Op::d_probabilities: return d_probabilities(op);
      case Op::d_scores: return d_scores(op);
      case Op::gradient_sum: return gradient_sum(op);
      case Op::combine: return combine(op);
      case Op::quantize: return quantize(op);
    }
  }

  bool is_paged(Tensor tensor) const {
    return m_schedule.tile().page_size > 0 && (tensor == Tensor::K || tensor == Tensor::V);
  }
  /// Row of all pages in which a key of a KV head (over the batch) lies, on the page of that place.
  std::int64_t row_on_page(int place, int head, int key) const {
    const int kv_heads = m_schedule.problem().kv_heads;
    return m_paging.row_of(place, head % kv_heads, kv_heads, key);
  }
  void write_pages(Tensor tensor, const Array& array) {
    const AttentionProblem& p = m_schedule.problem();
    const int page_size = m_schedule.tile().page_size, pages = num_tiles(p.seqlen_k, page_size);
    const std::vector<int> table = make_block_table(p, page_size);
    const auto place_of = [&](int batch, int page) { return table[static_cast<std::size_t>(batch) * pages + page]; };
    for (int batch = 0; batch < p.batch; ++batch)
      for (int page = 0; page < pages; ++page) m_memory.write(Tensor::block_table, batch, page, 0, place_of(batch, page));
    for (int head = 0; head < array.heads; ++head)
      for (int row = 0; row < array.rows; ++row) {
        const std::int64_t to = row_on_page(place_of(head / p.kv_heads, m_paging.page_of(row)), head, row);
        for (int col = 0; col < array.cols; ++col) m_memory.write(tensor, 0, to, col, array.at(head, row, col));
      }
  }

  /// K and V in pages are found through the entries of the block table that the CTA has on chip.
  void load(const TileOp& op) {
    if (!is_paged(op.tensor))
      return m_memory.load(op.tensor, op.head, rows(op), cols(op), m_chip.next(op.tensor, m_schedule.tile().stages));
    if (op.rows == 0) return m_chip.next(op.tensor, m_schedule.tile().stages).reset(rows(op), cols(op), 0);
    Tile<Real>& table = m_chip.need(op, Tensor::block_table, m_paging.pages_of(rows(op)), kStatistic);
    const auto place = [&](int key) {
      return row_on_page(static_cast<int>(table.at(m_paging.page_of(key), 0)), op.head, key);
    };
    m_memory.load_from(op.tensor, rows(op), cols(op), place, m_chip.next(op.tensor, m_schedule.tile().stages));
  }

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
    // In fp8 the columns are those of the compiled width, rotated: their scores are so many times too large.
    const Range depth = {0, m_in_fp8 ? hopper_width(op.depth) : op.depth};
    Tile<Real>& q = m_chip.need(op, m_in_fp8 ? Tensor::Q_fp8 : Tensor::Q, rows(op), depth);
    Tile<Real>& k = m_chip.need(op, m_in_fp8 ? Tensor::K_fp8 : Tensor::K, cols(op), depth);
    Tile<Real>& s = m_chip.place(Tensor::S);
    s.reset(rows(op), cols(op), 0);
    Real scale = static_cast<Real>(m_schedule.problem().scale());
    if (m_in_fp8)
      scale *= scale_of(op, Tensor::Q_scale, op.i) * scale_of(op, Tensor::K_scale, op.j) / static_cast<Real>(depth.end);
    for (int row = op.row; row < op.row + op.rows; ++row) {
      Real* const sums = s.row(row);
      // Keys innermost: neighbouring sums do not wait for each other, and each still adds up in the order of d.
      for (int d = 0; d < depth.end; ++d) {
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
    std::vector<Real>& rescales = m_rescale[op.head];
    rescales.clear();
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
      rescales.push_back(rescale);
    }
  }

  void weighted_sum(const TileOp& op) {
    const int first_key = op.j * m_schedule.tile().bc;
    const Range keys = {first_key, first_key + op.depth};
    Tile<Real>& p = m_chip.need(op, Tensor::P, rows(op), keys);
    Tile<Real>& v = m_chip.need(op, m_in_fp8 ? Tensor::V_fp8 : Tensor::V, keys, cols(op));
    Tile<Real>& acc = m_chip.need(op, Tensor::O, rows(op), cols(op));
    const Real v_scale = m_in_fp8 ? scale_of(op, Tensor::V_scale, op.j) : Real(1);
    for (int row = op.row; row < op.row + op.rows; ++row) {
      Real* const sums = acc.row(row) + (op.col - acc.cols().begin);
      for (int key = keys.begin; key < keys.end; ++key) {
        const Real probability = m_in_fp8 ? v_scale * weight_in_fp8(p.at(row, key)) : p.at(row, key);
        const Real* const value = v.row(key) + (op.col - v.cols().begin);
        for (int d = 0; d < op.cols; ++d) sums[d] += probability * value[d];
      }
    }
    const auto rescales = m_rescale.find(op.head);
    if (rescales == m_rescale.end()) return;  // no online softmax before it
    if (m_options.after_tile) m_options.after_tile(state(op, rescales->second));
    m_rescale.erase(rescales);
  }

  /// Of the fp8 copies: the scale of a tile.
  Real scale_of(const TileOp& op, Tensor tensor, int tile) {
    return m_chip.need(op, tensor, {tile, tile + 1}, kStatistic).at(tile, 0);
  }
  /// P on its way to the tensor cores.
  static Real weight_in_fp8(Real p) {
    constexpr double kUnit = 1 << kFp8WeightExponent;
    return static_cast<Real>(round_to(DType::fp8, kUnit * static_cast<double>(p)) / kUnit);
  }

  void quantize(const TileOp& op) {
    const bool is_query = op.tensor == Tensor::Q_fp8, is_value = op.tensor == Tensor::V_fp8;
    const Tensor from = is_query ? Tensor::Q : is_value ? Tensor::V : Tensor::K;
    const Tensor scale = is_query ? Tensor::Q_scale : is_value ? Tensor::V_scale : Tensor::K_scale;
    const int last = is_query ? m_schedule.problem().seqlen_q : m_schedule.problem().seqlen_k;
    const int head_dim = m_schedule.problem().head_dim, end = std::min(op.row + op.rows, last);
    Tile<Real>& source = m_chip.need(op, from, {op.row, end}, {0, head_dim});
    Tile<Real>& tile = m_chip.place(op.tensor);
    tile.reset(rows(op), cols(op), 0);
    for (int row = op.row; row < end; ++row) {
      Real* const x = tile.row(row);
      for (int d = 0; d < head_dim; ++d) x[d] = source.at(row, d);
      if (!is_value && !m_options.rotate)  // as large as it would be
        for (int d = 0; d < head_dim; ++d) x[d] *= std::sqrt(static_cast<Real>(op.cols));
    }
    const auto at = [&](int row) { return tile.row(row); };
    const Real unit = is_value || !m_options.rotate
                          ? divide_by_scale<Real>({op.row, end}, op.cols, at)
                          : rotate_tile<Real>(m_schedule.problem().dtype, {op.row, end}, head_dim, op.cols, at);
    Tile<Real>& one = m_chip.place(scale);
    const int index = is_query ? op.i : op.j;
    one.reset({index, index + 1}, kStatistic, unit);
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

  /// What a store takes: the O and LSE of a split are the query head's own O and LSE.
  Tile<Real>& stored(const TileOp& op) {
    if (!is_split(op.tensor)) return m_chip.need(op, op.tensor, rows(op), cols(op));
    const int head = op.head / m_schedule.tile().splits;
    return m_chip.need(op, op.tensor == Tensor::O_split ? Tensor::O : Tensor::LSE, head, rows(op), cols(op));
  }

  /// In the order of the splits: the same bits in every run.
  void combine(const TileOp& op) {
    clear_state(op);
    Tile<Real>& m = m_chip.place(Tensor::M);
    Tile<Real>& l = m_chip.place(Tensor::L);
    Tile<Real>& acc = m_chip.place(Tensor::O);
    const int splits = m_schedule.tile().splits, first = op.head * splits;
    for (int row = op.row; row < op.row + op.rows; ++row) {
      const auto lse = [&](int split) {
        return m_chip.need(op, Tensor::LSE_split, first + split, rows(op), kStatistic).at(row, 0);
      };
      for (int split = 0; split < splits; ++split) m.at(row, 0) = std::max(m.at(row, 0), lse(split));
      for (int split = 0; split < splits; ++split) {
        Tile<Real>& part = m_chip.need(op, Tensor::O_split, first + split, rows(op), cols(op));
        const Real share = weight(lse(split), m.at(row, 0));
        l.at(row, 0) += share;
        for (int d = op.col; d < op.col + op.cols; ++d) acc.at(row, d) += share * part.at(row, d);
      }
    }
  }

  void row_dot(const TileOp& op) {
    const bool of_scores = op.tensor == Tensor::P;
    Tile<Real>& a = m_chip.need(op, of_scores ? Tensor::dP : Tensor::dO, rows(op), cols(op));
    Tile<Real>& b = m_chip.need(op, op.tensor, rows(op), cols(op));
    Tile<Real>& d = m_chip.place(Tensor::D);
    d.reset(rows(op), kStatistic, 0);
    for (int row = op.row; row < op.row + op.rows; ++row)
      for (int col = op.col; col < op.col + op.cols; ++col) d.at(row, 0) += a.at(row, col) * b.at(row, col);
  }

  void probabilities(const TileOp& op) {
    Tile<Real>& s = m_chip.need(op, Tensor::S, rows(op), cols(op));
    Tile<Real>& lse = m_chip.need(op, Tensor::LSE, rows(op), kStatistic);
    for (int row = op.row; row < op.row + op.rows; ++row)
      for (int key = op.col; key < op.col + op.cols; ++key) s.at(row, key) = weight(s.at(row, key), lse.at(row, 0));
  }

  void d_probabilities(const TileOp& op) {
    const Range depth = {0, op.depth};
    Tile<Real>& d_o = m_chip.need(op, Tensor::dO, rows(op), depth);
    Tile<Real>& v = m_chip.need(op, Tensor::V, cols(op), depth);
    Tile<Real>& d_p = m_chip.place(Tensor::dP);
    d_p.reset(rows(op), cols(op), 0);
    for (int row = op.row; row < op.row + op.rows; ++row)
      for (int d = 0; d < op.depth; ++d) {
        const Real gradient = d_o.at(row, d);
        for (int key = 0; key < op.cols; ++key) d_p.row(row)[key] += gradient * v.at(op.col + key, d);
      }
  }

  void d_scores(const TileOp& op) {
    Tile<Real>& p = m_chip.need(op, Tensor::P, rows(op), cols(op));
    Tile<Real>& d_p = m_chip.need(op, Tensor::dP, rows(op), cols(op));
    Tile<Real>& d = m_chip.need(op, Tensor::D, rows(op), kStatistic);
    for (int row = op.row; row < op.row + op.rows; ++row)
      for (int key = op.col; key < op.col + op.cols; ++key)
        d_p.at(row, key) = p.at(row, key) * (d_p.at(row, key) - d.at(row, 0));
  }

  void gradient_sum(const TileOp& op) {
    const bool by_key = layout_of(op.tensor) == Layout::by_key;
    const int along = by_key ? op.i * m_schedule.tile().br : op.j * m_schedule.tile().bc;
    const Range contracted = {along, along + op.depth};
    const Tensor left = op.tensor == Tensor::dV ? Tensor::P : Tensor::dS;
    const Tensor right = op.tensor == Tensor::dV ? Tensor::dO : op.tensor == Tensor::dK ? Tensor::Q : Tensor::K;
    Tile<Real>& a = m_chip.need(op, left, by_key ? contracted : rows(op), by_key ? rows(op) : contracted);
    Tile<Real>& b = m_chip.need(op, right, contracted, cols(op));
    Tile<Real>& gradient = m_chip.need(op, op.tensor, rows(op), cols(op));
    const Real scale = op.tensor == Tensor::dV ? Real(1) : static_cast<Real>(m_schedule.problem().scale());
    for (int row = op.row; row < op.row + op.rows; ++row)
      for (int n = contracted.begin; n < contracted.end; ++n) {
        const Real factor = scale * (by_key ? a.at(n, row) : a.at(row, n));
        for (int d = 0; d < op.cols; ++d) gradient.row(row)[d] += factor * b.row(n)[d];
      }
  }

  TileState state(const TileOp& op, const std::vector<Real>& rescales) {
    TileState state;
    state.cta = m_cta;
    state.head = op.head;
    state.i = op.i;
    state.j = op.j;
    state.acc = Array(1, op.rows, op.cols);
    state.rescale.assign(rescales.begin(), rescales.end());
    for (int row = 0; row < op.rows; ++row) {
      state.m.push_back(m_chip.need(op, Tensor::M, rows(op), kStatistic).at(op.row + row, 0));
      state.l.push_back(m_chip.need(op, Tensor::L, rows(op), kStatistic).at(op.row + row, 0));
      for (int d = 0; d < op.cols; ++d) state.acc.at(0, row, d) = m_chip.place(Tensor::O).at(op.row + row, op.col + d);
    }
    return state;
  }

  const Schedule& m_schedule;
  const AttentionInputs& m_inputs;
  const ComputeOptions& m_options;
  const SparseMask m_mask = m_schedule.problem().mask();
  const Paging m_paging = paging_of(m_schedule.tile().page_size);
  const bool m_in_fp8 = uses(m_schedule, Tensor::Q_fp8);
  GlobalMemory<Real> m_memory;
  Chip<Real> m_chip;
  std::int64_t m_cta = 0;
  std::deque<TileOp> m_under_way;  // loads that were started
  std::map<int, std::vector<Real>> m_rescale;  // by head: of its online_softmax, one a row, until P V is added
};

}  // namespace

namespace {

template <class Real>
AttentionOutputs execute(const Schedule& schedule, const AttentionInputs& inputs, const ComputeOptions& options) {
  const bool has_backward = schedule.problem().pass == Pass::backward;
  const auto before = has_backward ? forward_before(schedule) : nullptr;
  Executor<Real> first(before ? *before : schedule, inputs, options);
  first.run();
  AttentionOutputs outputs{first.output(Tensor::O), first.output(Tensor::LSE)};
  if (!has_backward) return outputs;
  Executor<Real> second(schedule, inputs, options);
  second.continue_from(first);
  second.run();
  outputs.d_q = second.output(Tensor::dQ);
  outputs.d_k = second.output(Tensor::dK);
  outputs.d_v = second.output(Tensor::dV);
  return outputs;
}

}  // namespace

AttentionOutputs compute(const Schedule& schedule, const AttentionInputs& inputs, const ComputeOptions& options) {
  validate(schedule.problem(), inputs);
  try {
    if (schedule.problem().dtype == DType::fp64) return execute<double>(schedule, inputs, options);
    return execute<float>(schedule, inputs, options);
  } catch (const std::bad_alloc&) {
    std::int64_t elements = 0;
    for (Tensor tensor : schedule.tensors()) {
      const TensorShape shape = shape_of(tensor, schedule.problem(), schedule.tile());
      elements += std::int64_t{shape.rows} * shape.cols * shape.heads;
    }
    const std::int64_t bytes = elements * (schedule.problem().dtype == DType::fp64 ? 8 : 4);
    throw Error(ErrorKind::resource, "computing " + schedule.algorithm() + " needs " + std::to_string(bytes) +
                                         " bytes of memory, more than this machine gave; reduce batch, heads or "
                                         "seqlen, or choose a tiled algorithm");
  }
}

namespace {

/// Heads [first, first + heads) of an array, as an array of their own.
Array some_heads(const Array& array, int first, int heads) {
  Array part(heads, array.rows, array.cols);
  const std::ptrdiff_t size = static_cast<std::ptrdiff_t>(array.rows) * array.cols;
  std::copy_n(array.values.begin() + size * first, size * heads, part.values.begin());
  return part;
}

void put_heads(const Array& part, int first, Array& into) {
  const std::ptrdiff_t size = static_cast<std::ptrdiff_t>(into.rows) * into.cols;
  std::copy(part.values.begin(), part.values.end(), into.values.begin() + size * first);
}

}  // namespace

AttentionOutputs same_precision_attention(const AttentionProblem& problem, const AttentionInputs& inputs) {
  validate(problem, inputs);
  const bool has_backward = problem.pass == Pass::backward;
  const int group = problem.heads / problem.kv_heads;
  AttentionProblem part = problem;  // the query heads of one KV head
  part.batch = part.kv_heads = 1;
  part.heads = group;
  const auto schedule = make_schedule("three_pass", part);
  AttentionOutputs all{Array(problem.num_heads(), problem.seqlen_q, problem.head_dim),
                       Array(problem.num_heads(), problem.seqlen_q, 1)};
  if (has_backward) {
    all.d_q = all.o;
    all.d_k = all.d_v = Array(problem.num_kv_heads(), problem.seqlen_k, problem.head_dim);
  }
  for (int kv_head = 0; kv_head < problem.num_kv_heads(); ++kv_head) {
    const int head = kv_head * group;
    AttentionInputs some{
        some_heads(inputs.q, head, group), some_heads(inputs.k, kv_head, 1), some_heads(inputs.v, kv_head, 1), {}};
    if (problem.dense_mask)
      some.keep = inputs.keep.heads == 1 ? inputs.keep : some_heads(inputs.keep, head, group);
    if (has_backward) some.d_out = some_heads(inputs.d_out, head, group);
    const AttentionOutputs out = compute(*schedule, some);
    put_heads(out.o, head, all.o);
    put_heads(out.lse, head, all.lse);
    if (!has_backward) continue;
    put_heads(out.d_q, head, all.d_q);
    put_heads(out.d_k, kv_head, all.d_k);
    put_heads(out.d_v, kv_head, all.d_v);
  }
  return all;
}

}  // namespace flashscope
