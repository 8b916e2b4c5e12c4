// What the GPU tests share: a device, seeds, and the comparison by the tolerance rule.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/common/verify.h"
#include "kernels/kernels.h"
#include "sim/compute/tolerance.h"
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

/// Rungs that are built for a dtype.
inline std::vector<std::string> rungs(DType dtype) {
  std::vector<std::string> names;
  AttentionProblem p;
  p.dtype = dtype;
  for (const Algorithm& algorithm : algorithms())
    if (!algorithm.rung.empty() && device().why_unsupported(*make_schedule(algorithm.name, p)).empty())
      names.push_back(algorithm.name);
  return names;
}

/// All of them, each with the widest dtype that it is built for.
inline std::vector<std::pair<std::string, DType>> rungs() {
  std::vector<std::pair<std::string, DType>> all;
  const std::vector<std::string> wide = rungs(DType::fp32);
  for (const std::string& name : wide) all.emplace_back(name, DType::fp32);
  for (const std::string& name : rungs(DType::fp16))
    if (std::find(wide.begin(), wide.end(), name) == wide.end()) all.emplace_back(name, DType::fp16);
  return all;
}

inline std::string text_of(const AttentionProblem& p) {
  return std::string(name_of(p.dtype)) + " batch " + std::to_string(p.batch) + " heads " + std::to_string(p.heads) +
         "/" + std::to_string(p.kv_heads) + " seqlen " + std::to_string(p.seqlen_q) + "x" + std::to_string(p.seqlen_k) +
         " head_dim " + std::to_string(p.head_dim) + " window " + std::to_string(p.mask().left) + "," +
         std::to_string(p.mask().right) + " scale " + std::to_string(p.scale());
}

/// The reference and its yardstick for one problem, for all rungs; the comparison is the tolerance rule itself.
class Judge {
 public:
  Judge(const AttentionProblem& p, const AttentionInputs& inputs)
      : m_problem(p),
        m_inputs(inputs),
        m_reference(reference_attention(p, inputs)),
        m_same_precision(same_precision_attention(p, inputs)) {}

  /// Runs the rung; flash_v1, which rounds O once per key tile, is held to its own schedule.
  AttentionOutputs check(const std::string& rung) const {
    const auto schedule = make_schedule(rung, m_problem);
    const AttentionOutputs outputs = device().run(*schedule, m_inputs);
    const AttentionOutputs yardstick = rung == "flash_v1" ? compute(*schedule, m_inputs) : m_same_precision;
    INFO(rung, ": ", text_of(m_problem));
    check("O", compare(outputs.o, m_reference.o, yardstick.o, m_problem.dtype));
    check("LSE", compare(outputs.lse, m_reference.lse, yardstick.lse, DType::fp32));
    return outputs;
  }

 private:
  static void check(const char* name, const flashscope::Verification& v) {
    CHECK_MESSAGE(v.passed, name, " at ", v.worst, ": ", v.tolerance_used, " times its tolerance, max error ",
                  v.max_abs, ", non-finite ", v.nonfinite);
  }

  const AttentionProblem m_problem;
  const AttentionInputs& m_inputs;
  const AttentionOutputs m_reference, m_same_precision;
};

/// Runs the rung and holds O and LSE to the tolerance rule.
inline AttentionOutputs check_rung(const std::string& rung, const AttentionProblem& p, const AttentionInputs& inputs) {
  return Judge(p, inputs).check(rung);
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
