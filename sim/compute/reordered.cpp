#include "sim/compute/reordered.h"

#include <cstdint>
#include <numeric>
#include <random>
#include <utility>

#include "sim/schedule/walk.h"

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
  if (outputs.d_q.cols == 0) return first;  // of a forward pass
  first.d_q = moved(outputs.d_q, m_rows, m_columns, true);
  first.d_k = moved(outputs.d_k, m_keys, m_columns, true);
  first.d_v = moved(outputs.d_v, m_keys, m_value_columns, true);
  return first;
}

}  // namespace flashscope
