#include "sim/compute/judge.h"

#include <algorithm>

#include "sim/compute/reordered.h"
#include "sim/schedule/algorithms.h"

namespace flashscope {
namespace {

OutputErrors larger(const OutputErrors& a, const OutputErrors& b) {
  return {std::max(a.o, b.o),
          std::max(a.lse, b.lse),
          {std::max(a.gradients.d_q, b.gradients.d_q), std::max(a.gradients.d_k, b.gradients.d_k),
           std::max(a.gradients.d_v, b.gradients.d_v)}};
}

}  // namespace

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
