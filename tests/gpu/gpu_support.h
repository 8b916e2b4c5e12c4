// What the GPU tests share: a device, seeds, and the comparison by the tolerance rule.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/common/verify.h"
#include "kernels/kernels.h"
#include "sim/compute/judge.h"
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

/// The rounds of a random test. Each has a generator of its own, so that one can be repeated by itself: FLASHSCOPE_SEED
/// and FLASHSCOPE_ROUND. FLASHSCOPE_ROUNDS sets how many there are.
class Rounds {
 public:
  explicit Rounds(int all) : m_seed(fresh_seed()) {
    const auto given = [](const char* name, int otherwise) {
      const char* text = std::getenv(name);
      return text ? std::atoi(text) : otherwise;
    };
    m_begin = given("FLASHSCOPE_ROUND", 0);
    m_end = std::getenv("FLASHSCOPE_ROUND") ? m_begin + 1 : given("FLASHSCOPE_ROUNDS", all);
  }
  int begin() const { return m_begin; }
  int end() const { return m_end; }
  std::mt19937 generator(int round) const { return std::mt19937(m_seed + static_cast<std::uint32_t>(round)); }
  /// The command that runs this round alone. `test`: its name, or the start of it.
  std::string repeat(int round, const std::string& test) const {
    return "FLASHSCOPE_SEED=" + std::to_string(m_seed) + " FLASHSCOPE_ROUND=" + std::to_string(round) +
           " test_gpu -tc=\"" + test + "*\"";
  }

 private:
  std::uint32_t m_seed;
  int m_begin, m_end;
};

/// Rungs that are built for a dtype and compute in it: those that quantise have their own tests (fp8_test.cpp).
inline std::vector<std::string> rungs(DType dtype) {
  std::vector<std::string> names;
  AttentionProblem p;
  p.dtype = dtype;
  for (const Algorithm& algorithm : algorithms())
    if (!algorithm.rung.empty() && !algorithm.quantizes &&
        device().why_unsupported(*make_schedule(algorithm.name, p)).empty())
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

/// Those that can run a problem.
inline std::vector<std::string> backward_rungs(const AttentionProblem& p) {
  std::vector<std::string> names = backward_rungs(p.dtype, p.head_dim);
  names.erase(std::remove_if(
                  names.begin(), names.end(),
                  [&](const std::string& name) { return !device().why_unsupported(*make_schedule(name, p)).empty(); }),
              names.end());
  return names;
}

/// All of them that take any head_dim, each with the widest dtype that it is built for. (TMA copies rows of 16 bytes.)
inline std::vector<std::pair<std::string, DType>> backward_rungs() {
  std::vector<std::pair<std::string, DType>> all;
  const std::vector<std::string> wide = backward_rungs(DType::fp32, 1);
  for (const std::string& name : wide) all.emplace_back(name, DType::fp32);
  for (const std::string& name : backward_rungs(DType::fp16, 1))
    if (std::find(wide.begin(), wide.end(), name) == wide.end()) all.emplace_back(name, DType::fp16);
  return all;
}

/// Of float32 what is given; half precision has eleven bits, and inputs, weights and outputs are rounded to them.
inline double within(DType dtype, double tolerance) { return dtype == DType::fp32 ? tolerance : 4e-3; }

inline std::string sparsity_of(const AttentionProblem& p) {
  std::string text;
  if (p.block_mask) {
    const BlockMask& mask = *p.block_mask.mask;
    text += " blocks of " + std::to_string(mask.block_q) + "x" + std::to_string(mask.block_k) + ", " +
            std::to_string(mask.kept_blocks()) + " of " + std::to_string(mask.rows) + "x" + std::to_string(mask.cols);
  }
  for (const auto* offsets : {&p.cu_seqlens_q, &p.cu_seqlens_k}) {
    if (offsets->empty()) continue;
    text += offsets == &p.cu_seqlens_q ? " sequences" : " keys";
    for (int at : *offsets) text += " " + std::to_string(at);
  }
  return text;
}

inline std::string text_of(const AttentionProblem& p) {
  return std::string(name_of(p.dtype)) + " batch " + std::to_string(p.batch) + " heads " + std::to_string(p.heads) +
         "/" + std::to_string(p.kv_heads) + " seqlen " + std::to_string(p.seqlen_q) + "x" + std::to_string(p.seqlen_k) +
         " head_dim " + std::to_string(p.head_dim) + " window " + std::to_string(p.mask().left) + "," +
         std::to_string(p.mask().right) + " scale " + std::to_string(p.scale()) + " " + name_of(p.pass) +
         sparsity_of(p);
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
  const AttentionInputs wide{
      with_columns(inputs.q, p.head_dim), with_columns(inputs.k, p.head_dim), with_columns(inputs.v, p.head_dim), {}};
  AttentionOutputs outputs = device().run(*make_schedule(rung, p), wide);
  outputs.o = with_columns(outputs.o, head_dim);
  return outputs;
}

/// Runs rungs on one problem and holds them to the tolerance rule (sim/compute/judge.h).
class Judge {
 public:
  Judge(const AttentionProblem& p, const AttentionInputs& inputs)
      : m_problem(p), m_inputs(inputs), m_judge(p, inputs) {}

  /// What was compared, by name; of a failure also the first wrong element, and what it was held to.
  struct Judged {
    const char* name;
    flashscope::Verification verified;
    std::string failure;
  };

  /// Runs the rung; some are held to their own schedule (is_held_to_itself). `splits`, `page_size`: of split_kv.
  AttentionOutputs check(const std::string& rung, int splits = 3, int page_size = 0) {
    const auto schedule = make_schedule(rung, m_problem, {0, 0, 0, false, splits, false, page_size});
    const AttentionOutputs outputs =
        rung == "flash_v3" ? run_rung(rung, m_problem, m_inputs) : device().run(*schedule, m_inputs);
    INFO(rung, ": ", text_of(m_problem));
    for (const Judged& judged : judge(*schedule, outputs)) CHECK_MESSAGE(judged.verified.passed, judged.failure);
    return outputs;
  }

  /// Every element of O and LSE and, of a backward pass, of dQ, dK and dV.
  std::vector<Judged> judge(const Schedule& schedule, const AttentionOutputs& outputs) {
    const JudgedOutputs j = m_judge.judge(schedule, outputs);
    const AttentionOutputs& right = m_judge.reference();
    const auto told = [&](const char* name, const flashscope::Verification& v, Array AttentionOutputs::*array,
                          double e) {
      return Judged{name, v, v.passed ? "" : failure_of(name, v, outputs.*array, right.*array, e, j.orders)};
    };
    std::vector<Judged> judged = {told("O", j.o, &AttentionOutputs::o, j.errors.o),
                                  told("LSE", j.lse, &AttentionOutputs::lse, j.errors.lse)};
    if (m_problem.pass == Pass::backward) {
      judged.push_back(told("dQ", j.gradients.d_q, &AttentionOutputs::d_q, j.errors.gradients.d_q));
      judged.push_back(told("dK", j.gradients.d_k, &AttentionOutputs::d_k, j.errors.gradients.d_k));
      judged.push_back(told("dV", j.gradients.d_v, &AttentionOutputs::d_v, j.errors.gradients.d_v));
    }
    return judged;
  }

 private:
  static std::string failure_of(const char* name, const flashscope::Verification& v, const Array& found,
                                const Array& right, double e, int orders) {
    std::ostringstream text;
    const auto bad = static_cast<std::size_t>(v.first_bad);
    text.precision(12);
    text << name << " at " << v.worst << ": " << v.tolerance_used << " times its tolerance, max error " << v.max_abs
         << ", non-finite " << v.nonfinite << ", E of " << orders << " orders " << e << " of " << right.values.size()
         << " elements; the first wrong one, number " << bad << ", is " << found.values[bad] << " for "
         << right.values[bad] << ", error " << std::fabs(found.values[bad] - right.values[bad]);
    return text.str();
  }

  const AttentionProblem m_problem;
  const AttentionInputs& m_inputs;
  OutputJudge m_judge;
};

/// Runs the rung and holds O and LSE to the tolerance rule.
inline AttentionOutputs check_rung(const std::string& rung, const AttentionProblem& p, const AttentionInputs& inputs) {
  return Judge(p, inputs).check(rung);
}

inline bool equal_bits(const AttentionOutputs& a, const AttentionOutputs& b) {
  return a.o.values == b.o.values && a.lse.values == b.lse.values && a.d_q.values == b.d_q.values &&
         a.d_k.values == b.d_k.values && a.d_v.values == b.d_v.values;
}

/// How many of `runs` more runs differ in a bit from the first: a race would show in some.
inline int different_runs(const Schedule& schedule, const AttentionInputs& inputs, int runs) {
  const AttentionOutputs first = device().run(schedule, inputs);
  int different = 0;
  for (int run = 0; run < runs; ++run) different += !equal_bits(first, device().run(schedule, inputs));
  return different;
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
