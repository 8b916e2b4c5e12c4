// What the GPU tests share: a device, seeds, and the comparison by the tolerance rule.
#pragma once
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/common/verify.h"
#include "kernels/kernels.h"
#include "sim/schedule/algorithms.h"

namespace flashscope::kernels {

inline Device& device() {
  static const std::unique_ptr<Device> the_device = open_device();
  return *the_device;
}

/// A fresh seed for each run, or the one in FLASHSCOPE_SEED to repeat a run.
inline std::uint32_t fresh_seed() {
  const char* given = std::getenv("FLASHSCOPE_SEED");
  return given ? static_cast<std::uint32_t>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
}

inline const std::vector<std::string>& rungs() {
  static const std::vector<std::string> names = {"three_pass_naive", "three_pass", "flash_v1", "flash_v2"};
  return names;
}

inline std::string text_of(const AttentionProblem& p) {
  return std::string(name_of(p.dtype)) + " batch " + std::to_string(p.batch) + " heads " + std::to_string(p.heads) + "/" +
         std::to_string(p.kv_heads) + " seqlen " + std::to_string(p.seqlen_q) + "x" + std::to_string(p.seqlen_k) +
         " head_dim " + std::to_string(p.head_dim) + " window " + std::to_string(p.mask().left) + "," +
         std::to_string(p.mask().right) + " scale " + std::to_string(p.scale());
}

/// Runs the rung and holds O and LSE to the tolerance rule.
inline AttentionOutputs check_rung(const std::string& rung, const AttentionProblem& p, const AttentionInputs& inputs) {
  const auto schedule = make_schedule(rung, p);
  const AttentionOutputs outputs = device().run(*schedule, inputs);
  const VerifiedOutputs verified = verify_outputs(*schedule, inputs, outputs, 1);
  INFO(rung, ": ", text_of(p));
  CHECK_MESSAGE(verified.o.passed, "O at ", verified.o.worst, ": ", verified.o.tolerance_used,
                " times its tolerance, max error ", verified.o.max_abs, ", non-finite ", verified.o.nonfinite);
  CHECK_MESSAGE(verified.lse.passed, "LSE at ", verified.lse.worst, ": ", verified.lse.tolerance_used,
                " times its tolerance, max error ", verified.lse.max_abs, ", non-finite ", verified.lse.nonfinite);
  return outputs;
}

inline AttentionProblem one_head(int seqlen_q, int seqlen_k, int head_dim, DType dtype = DType::fp32) {
  AttentionProblem p;
  p.heads = p.kv_heads = 1;
  p.seqlen_q = seqlen_q;
  p.seqlen_k = seqlen_k;
  p.head_dim = head_dim;
  p.dtype = dtype;
  p.softmax_scale = 1;
  return p;
}

inline Array filled(int heads, int rows, int cols, std::vector<double> values) {
  Array array(heads, rows, cols);
  array.values = std::move(values);
  return array;
}

}  // namespace flashscope::kernels
