// The same attention with its rows, keys and columns in another order: what is exact stays, sums add up otherwise.
#pragma once
#include <vector>

#include "sim/compute/compute.h"

namespace flashscope {

/// A problem with the rows, keys and columns of its inputs in another order; `order` 0 is as they are.
class Reordered {
 public:
  Reordered(const AttentionProblem& problem, const AttentionInputs& inputs, int order);
  const AttentionProblem& problem() const { return m_problem; }
  const AttentionInputs& inputs() const { return m_inputs; }
  /// Outputs of this problem, in the order of the first one.
  AttentionOutputs restored(const AttentionOutputs& outputs) const;

 private:
  AttentionProblem m_problem;
  AttentionInputs m_inputs;
  std::vector<int> m_rows, m_keys, m_columns, m_value_columns;  // what stands at each place
};

}  // namespace flashscope
