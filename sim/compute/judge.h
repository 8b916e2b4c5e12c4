// Are the outputs of a run right? Reference, yardstick and tolerance rule (tolerance.h, gradient_tolerance.h) together.
//
// E is the largest error of plain attention. Where few elements can err (few scores a row, or one weight that is nearly
// 1), it is a matter of luck. The same attention with its rows, keys and columns in another order adds up in another
// order: it errs as much, elsewhere. (One row of three keys has six orders: check tensors of some hundred elements.) So
// outputs that E of the first order would fail are held to the largest E of up to kOrders orders; what is wrong is
// wrong by more than any of them.
#pragma once
#include <vector>

#include "sim/compute/gradient_tolerance.h"
#include "sim/schedule/schedule.h"

namespace flashscope {

constexpr int kOrders = 64;

/// E of each output.
struct OutputErrors {
  double o = 0, lse = 0;
  OfGradients<double> gradients = {};  // of a backward pass
};

/// True of algorithms that round more than plain attention in the problem's dtype does: flash_v1, which rounds O to the
/// storage dtype once a key tile, and those that quantise. The yardstick of their O and LSE is their own schedule,
/// executed by compute().
bool is_held_to_itself(const Schedule& schedule);

struct JudgedOutputs {
  Verification o, lse;
  OfGradients<Verification> gradients;  // of a backward pass; else as they are made
  OutputErrors errors;                  // what they were held to
  int orders = 1;                       // that E was taken from
  bool is_backward = false;
  bool passed() const {
    return o.passed && lse.passed &&
           (!is_backward || (gradients.d_q.passed && gradients.d_k.passed && gradients.d_v.passed));
  }
};

/// Judges runs of any algorithm on one problem, whole: for problems that the CPU computes in no time.
class OutputJudge {
 public:
  /// `inputs` must outlive it.
  OutputJudge(const AttentionProblem& problem, const AttentionInputs& inputs);

  const AttentionOutputs& reference() const { return m_reference; }

  /// Every element of O and LSE and, of a backward pass, of dQ, dK and dV. Not from two threads at once.
  JudgedOutputs judge(const Schedule& schedule, const AttentionOutputs& outputs);

 private:
  const OutputErrors& plain_errors(int order);
  OutputErrors errors_of(const Schedule& schedule, int order);

  const AttentionProblem m_problem;
  const AttentionInputs& m_inputs;
  const AttentionOutputs m_reference;
  std::vector<OutputErrors> m_plain;  // by order
};

}  // namespace flashscope
