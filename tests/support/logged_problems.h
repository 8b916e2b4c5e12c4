// Small problems whose operation logs, as kernels wrote them on a GPU, are kept in tests/data/kernel_logs.txt: there the
// schedules are checked against real kernels without a GPU.
#pragma once
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "sim/schedule/algorithms.h"

namespace flashscope {

/// The rung's own, and of split_kv three splits.
inline constexpr TileShape kLoggedTile = {0, 0, 0, false, 3};

inline std::vector<AttentionProblem> logged_problems() {
  AttentionProblem tails;
  tails.heads = tails.kv_heads = 2;
  tails.seqlen_q = 100;
  tails.seqlen_k = 130;
  tails.head_dim = 64;
  AttentionProblem causal = tails;
  causal.kv_heads = 1;
  causal.causal = true;
  causal.seqlen_q = 129;
  causal.head_dim = 40;
  causal.dtype = DType::fp32;
  AttentionProblem window = tails;
  window.batch = 2;
  window.heads = window.kv_heads = 1;
  window.seqlen_q = window.seqlen_k = 200;
  window.window_left = 50;
  window.window_right = 10;
  window.head_dim = 33;
  return {tails, causal, window};
}

/// One line an operation, under a line that names the algorithm and the number of the problem.
inline std::string log_text(const std::string& algorithm, std::size_t problem, const std::vector<kernels::LoggedOp>& log) {
  std::string text = algorithm + " problem " + std::to_string(problem) + "\n";
  for (const kernels::LoggedOp& op : log) {
    const bool moves = op.op == Op::load || op.op == Op::store;
    text += std::to_string(op.kernel) + " " + std::to_string(op.cta) + " " + name_of(op.op) + " " +
            (moves ? name_of(op.tensor) : "-");
    for (std::int64_t x : {std::int64_t{op.head}, std::int64_t{op.row}, std::int64_t{op.rows}, std::int64_t{op.col},
                           std::int64_t{op.cols}, std::int64_t{op.depth}, op.bytes})
      text += " " + std::to_string(x);
    if (op.heads > 1) text += " heads " + std::to_string(op.heads);
    text += "\n";
  }
  return text;
}

}  // namespace flashscope
