#include "sim/compute/judge.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "sim/schedule/algorithms.h"

namespace flashscope {
namespace {

std::vector<int> shuffled(int size, int order, std::uint32_t of_what) {
  std::vector<int> places(static_cast<std::size_t>(size));
  std::iota(places.begin(), places.end(), 0);
  if (order == 0) return places;
  std::seed_seq seeds{static_cast<std::uint32_t>(order), of_what};
  std::mt19937 random(seeds);
  for (int n = size - 1; n > 0; --n)  // std::shuffle is not the same everywhere
    std::swap(places[static_cast<std::size_t>(n)], places[random() % static_cast<std::uint32_t>(n + 1)]);
  return places;
}

/// to(row, col) = from(rows[row], cols[col]), or the way back.
Array moved(const Array& from, const std::vector<int>& rows, const std::vector<int>& cols, bool back) {
  Array to = from;
  for (int head = 0; head < from.heads; ++head)
    for (int row = 0; row < from.rows; ++row)
      for (int col = 0; col < from.cols; ++col) {
        const int other_row = rows[static_cast<std::size_t>(row)], other_col = cols[static_cast<std::size_t>(col)];
        if (back)
          to.at(head, other_row, other_col) = from.at(head, row, col);
        else
          to.at(head, row, col) = from.at(head, other_row, other_col);
      }
  return to;
}

OutputErrors larger(const OutputErrors& a, const OutputErrors& b) {
  return {std::max(a.o, b.o),
          std::max(a.lse, b.lse),
          {std::max(a.gradients.d_q, b.gradients.d_q), std::max(a.gradients.d_k, b.gradients.d_k),
           std::max(a.gradients.d_v, b.gradients.d_v)}};
}

}  // namespace

Reordered::Reordered(const AttentionProblem& problem, const AttentionInputs& inputs, int order)
    : m_problem(problem),
      m_inputs(inputs),
      m_rows(shuffled(problem.seqlen_q, order, 0)),
      m_keys(shuffled(problem.seqlen_k, order, 1)),
      m_columns(shuffled(problem.head_dim, order, 2)),
      m_value_columns(shuffled(problem.head_dim, order, 3)) {
  if (order == 0) return;
  m_inputs.q = moved(inputs.q, m_rows, m_columns, false);
  m_inputs.k = moved(inputs.k, m_keys, m_columns, false);
  m_inputs.v = moved(inputs.v, m_keys, m_value_columns, false);
  if (problem.pass == Pass::backward) m_inputs.d_out = moved(inputs.d_out, m_rows, m_value_columns, false);
  // The mask has no geometry any more: a keep array.
  const SparseMask mask = problem.mask();
  if (!problem.dense_mask && mask.is_band() && mask.left < 0 && mask.right < 0) return;
  Array keep = problem.dense_mask ? inputs.keep : Array(1, problem.seqlen_q, problem.seqlen_k);
  for (int head = 0; head < keep.heads; ++head)
    for (int row = 0; row < keep.rows; ++row)
      for (int key = 0; key < keep.cols; ++key) {
        const bool allowed = !problem.dense_mask || keep.at(head, row, key) != 0;
        keep.at(head, row, key) = allowed && is_kept(mask, row, key);
      }
  m_inputs.keep = moved(keep, m_rows, m_keys, false);
  m_problem.softmax_scale = problem.scale();
  m_problem.dense_mask = true;
  m_problem.causal = false;
  m_problem.window_left = m_problem.window_right = -1;
  m_problem.block_mask = {};
  m_problem.cu_seqlens_q.clear();
  m_problem.cu_seqlens_k.clear();
}

AttentionOutputs Reordered::restored(const AttentionOutputs& outputs) const {
  AttentionOutputs first;
  first.o = moved(outputs.o, m_rows, m_value_columns, true);
  first.lse = moved(outputs.lse, m_rows, {0}, true);
  if (m_problem.pass != Pass::backward || outputs.d_q.values.empty()) return first;
  first.d_q = moved(outputs.d_q, m_rows, m_columns, true);
  first.d_k = moved(outputs.d_k, m_keys, m_columns, true);
  first.d_v = moved(outputs.d_v, m_keys, m_value_columns, true);
  return first;
}

bool is_held_to_itself(const Schedule& schedule) {
  return schedule.algorithm() == "flash_v1" || algorithm_named(schedule.algorithm(), schedule.problem().pass).quantizes;
}

OutputJudge::OutputJudge(const AttentionProblem& problem, const AttentionInputs& inputs)
    : m_problem(problem), m_inputs(inputs), m_reference(reference_attention(problem, inputs)) {}

const OutputErrors& OutputJudge::plain_errors(int order) {
  while (static_cast<int>(m_plain.size()) <= order) {
    const Reordered other(m_problem, m_inputs, static_cast<int>(m_plain.size()));
    const AttentionOutputs plain = other.restored(same_precision_attention(other.problem(), other.inputs()));
    OutputErrors e{largest_error(plain.o, m_reference.o), largest_error(plain.lse, m_reference.lse)};
    if (m_problem.pass == Pass::backward) e.gradients = largest_errors(plain, m_reference);
    m_plain.push_back(e);
  }
  return m_plain[static_cast<std::size_t>(order)];
}

OutputErrors OutputJudge::errors_of(const Schedule& schedule, int order) {
  if (!is_held_to_itself(schedule)) return plain_errors(order);
  OutputErrors e;
  if (m_problem.pass == Pass::backward) e = plain_errors(order);
  const Reordered other(m_problem, m_inputs, order);
  AttentionProblem forward = other.problem();
  forward.pass = Pass::forward;
  const TileShape tile = m_problem.pass == Pass::forward ? schedule.tile() : forward_before(schedule)->tile();
  const AttentionOutputs own =
      other.restored(compute(*make_schedule(schedule.algorithm(), forward, tile), other.inputs()));
  e.o = largest_error(own.o, m_reference.o);
  e.lse = largest_error(own.lse, m_reference.lse);
  return e;
}

JudgedOutputs OutputJudge::judge(const Schedule& schedule, const AttentionOutputs& outputs) {
  JudgedOutputs judged;
  judged.is_backward = m_problem.pass == Pass::backward;
  OfGradients<Array> inherited;
  if (judged.is_backward) inherited = inherited_from_forward(m_problem, m_inputs, outputs, m_reference);
  // Whoever quantises finds other scales where other rows and columns stand together: that is another problem.
  const int orders = algorithm_named(schedule.algorithm(), m_problem.pass).quantizes ? 1 : kOrders;
  judged.errors = errors_of(schedule, 0);
  for (judged.orders = 1;; ++judged.orders) {
    judged.o = compare(outputs.o, m_reference.o, judged.errors.o, m_problem.dtype);
    judged.lse = compare(outputs.lse, m_reference.lse, judged.errors.lse, DType::fp32);
    if (judged.is_backward)
      judged.gradients = compare_gradients(schedule, outputs, m_reference, judged.errors.gradients, inherited);
    if (judged.passed() || judged.orders == orders) return judged;
    judged.errors = larger(judged.errors, errors_of(schedule, judged.orders));
  }
}

}  // namespace flashscope
