// What the window's tests share: a small machine, and the list of problems they try.
#pragma once
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "viz/core/stage_trace.h"
#include "viz/io/machine_io.h"

namespace flashscope::viz::testing {

/// The H200 with four SMs and, if wanted, an L2 so small that tiles leave it.
inline Machine small_machine(std::int64_t l2_bytes = 60'000'000) {
  Machine machine = load_machine("nvidia-h200");
  machine.num_sms.value = 4;
  machine.l2_bytes.value = static_cast<double>(l2_bytes);
  return machine;
}

inline AttentionProblem small_problem(int seqlen = 96, int heads = 2, bool causal = false) {
  AttentionProblem p;
  p.heads = p.kv_heads = heads;
  p.seqlen_q = p.seqlen_k = seqlen;
  p.head_dim = 32;
  p.causal = causal;
  return p;
}

inline AttentionProblem random_problem(std::mt19937& random) {
  const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  AttentionProblem p;
  p.kv_heads = pick(1, 2);
  p.heads = p.kv_heads * pick(1, 2);
  p.seqlen_q = pick(1, 150);
  p.seqlen_k = pick(1, 150);
  p.head_dim = pick(1, 4) * 8;
  p.dtype = pick(0, 1) ? DType::bf16 : DType::fp32;
  p.causal = pick(0, 1) == 1;
  return p;
}

}  // namespace flashscope::viz::testing
