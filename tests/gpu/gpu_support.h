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
#include "sim/compute/gradient_tolerance.h"
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

/// Those that can run a problem.
inline std::vector<std::string> rungs(const AttentionProblem& p) {
  std::vector<std::string> names;
  for (const std::string& name : rungs(p.dtype))
    if (device().why_unsupported(*make_schedule(name, p)).empty()) names.push_back(name);
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

/// Backward passes that are built for a dtype and a head_dim.
inline std::vector<std::string> backward_rungs(DType dtype, int head_dim = 64) {
  std::vector<std::string> names;
  AttentionProblem p;
  p.pass = Pass::backward;
  p.dtype = dtype;
  p.head_dim = head_dim;
  for (const Algorithm& algorithm : algorithms(Pass::backward))
    if (!algorithm.rung.empty() && device().why_unsupported(*make_schedule(algorithm.name, p)).empty())
      names.push_back(algorithm.name);
  return names;
}

/// All of them, each with the widest dtype that it is built for.
inline std::vector<std::pair<std::string, DType>> backward_rungs() {
  std::vector<std::pair<std::string, DType>> all;
  const std::vector<std::string> wide = backward_rungs(DType::fp32);
  for (const std::string& name : wide) all.emplace_back(name, DType::fp32);
  for (const std::string& name : backward_rungs(DType::fp16))
    if (std::find(wide.begin(), wide.end(), name) == wide.end()) all.emplace_back(name, DType::fp16);
  return all;
}

/// Of float32 what is given; half precision has eleven bits, and inputs, weights and outputs are rounded to them.
inline double within(DType dtype, double tolerance) { return dtype == DType::fp32 ? tolerance : 4e-3; }

inline std::string text_of(const AttentionProblem& p) {
  return std::string(name_of(p.dtype)) + " batch " + std::to_string(p.batch) + " heads " + std::to_string(p.heads) +
         "/" + std::to_string(p.kv_heads) + " seqlen " + std::to_string(p.seqlen_q) + "x" + std::to_string(p.seqlen_k) +
         " head_dim " + std::to_string(p.head_dim) + " window " + std::to_string(p.mask().left) + "," +
         std::to_string(p.mask().right) + " scale " + std::to_string(p.scale()) + " " + name_of(p.pass);
}

/// Columns of zeros behind the others, or fewer columns.
inline Array with_columns(const Array& array, int cols) {
  Array result(array.heads, array.rows, cols);
  for (int head = 0; head < array.heads; ++head)
    for (int row = 0; row < array.rows; ++row)
      for (int col = 0; col < std::min(cols, array.cols); ++col) result.at(head, row, col) = array.at(head, row, col);
  return result;
}

/// Runs a rung, where it takes whole 16 bytes only with columns of zeros added: they change no score (the problem's
/// scale is kept), and their O is left away.
inline AttentionOutputs run_rung(const std::string& rung, AttentionProblem p, const AttentionInputs& inputs) {
  if (rung != "flash_v3" || p.head_dim % 8 == 0) return device().run(*make_schedule(rung, p), inputs);
  const int head_dim = p.head_dim;
  p.softmax_scale = p.scale();
  p.head_dim = (head_dim + 7) / 8 * 8;
  const AttentionInputs wide{with_columns(inputs.q, p.head_dim), with_columns(inputs.k, p.head_dim),
                             with_columns(inputs.v, p.head_dim), {}};
  AttentionOutputs outputs = device().run(*make_schedule(rung, p), wide);
  outputs.o = with_columns(outputs.o, head_dim);
  return outputs;
}

/// The reference and its yardstick for one problem, for all rungs; the comparison is the tolerance rule itself.
class Judge {
 public:
  Judge(const AttentionProblem& p, const AttentionInputs& inputs)
      : m_problem(p),
        m_inputs(inputs),
        m_reference(reference_attention(p, inputs)),
        m_same_precision(same_precision_attention(p, inputs)) {}

  /// Runs the rung; flash_v1, which rounds O once per key tile, is held to its own schedule. `splits`: of split_kv.
  AttentionOutputs check(const std::string& rung, int splits = 3) const {
    const auto schedule = make_schedule(rung, m_problem, {0, 0, 0, false, splits});
    const AttentionOutputs outputs =
        rung == "flash_v3" ? run_rung(rung, m_problem, m_inputs) : device().run(*schedule, m_inputs);
    INFO(rung, ": ", text_of(m_problem));
    for (const auto& [name, verified] : judge(*schedule, outputs)) check(name, verified);
    return outputs;
  }

  /// Every element of O and LSE and, of a backward pass, of dQ, dK and dV.
  std::vector<std::pair<const char*, flashscope::Verification>> judge(const Schedule& schedule,
                                                                      const AttentionOutputs& outputs) const {
    const AttentionOutputs own =
        schedule.algorithm() == "flash_v1" ? compute(schedule, m_inputs) : AttentionOutputs{};
    const AttentionOutputs& yardstick = schedule.algorithm() == "flash_v1" ? own : m_same_precision;
    std::vector<std::pair<const char*, flashscope::Verification>> verified = {
        {"O", compare(outputs.o, m_reference.o, yardstick.o, m_problem.dtype)},
        {"LSE", compare(outputs.lse, m_reference.lse, yardstick.lse, DType::fp32)}};
    if (m_problem.pass == Pass::backward) {
      const OfGradients<flashscope::Verification> gradients = compare_gradients(
          schedule, outputs, m_reference, largest_errors(m_same_precision, m_reference),
          inherited_from_forward(m_problem, m_inputs, outputs, m_reference));
      verified.insert(verified.end(), {{"dQ", gradients.d_q}, {"dK", gradients.d_k}, {"dV", gradients.d_v}});
    }
    return verified;
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

/// The first operation in which a kernel's log differs from its schedule, in words.
inline void check_log(const std::vector<LoggedOp>& expected, const std::vector<LoggedOp>& log) {
  CHECK(log.size() == expected.size());
  for (std::size_t n = 0; n < std::min(log.size(), expected.size()); ++n) {
    if (log[n] == expected[n]) continue;
    const auto text = [](const LoggedOp& op) {
      std::string s = "kernel " + std::to_string(op.kernel) + " cta " + std::to_string(op.cta) + " " + name_of(op.op) +
                      " " + name_of(op.tensor);
      for (std::int64_t x : {std::int64_t{op.head}, std::int64_t{op.row}, std::int64_t{op.rows}, std::int64_t{op.col},
                             std::int64_t{op.cols}, std::int64_t{op.depth}, op.bytes})
        s += " " + std::to_string(x);
      return s;
    };
    FAIL_CHECK("operation ", n, ": logged ", text(log[n]), ", the schedule says ", text(expected[n]));
    return;
  }
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
