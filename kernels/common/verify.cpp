#include "kernels/common/verify.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "sim/compute/rounding.h"
#include "sim/compute/tolerance.h"
#include "sim/error.h"
#include "sim/schedule/algorithms.h"

namespace flashscope::kernels {
namespace {

constexpr std::int64_t kFullWork = std::int64_t{1} << 25;

Array seeded_array(const TensorShape& shape, DType dtype, std::mt19937& random) {
  Array array(shape.heads, shape.rows, shape.cols);
  std::normal_distribution<double> normal;
  for (double& value : array.values) value = round_to(dtype, normal(random));
  return array;
}

/// The first `number` of a random order of 0 … size-1, and the first and last of those; ascending.
std::vector<int> sample(int size, std::int64_t number, std::mt19937& random) {
  if (number >= size) {
    std::vector<int> all(static_cast<std::size_t>(size));
    for (int n = 0; n < size; ++n) all[static_cast<std::size_t>(n)] = n;
    return all;
  }
  std::set<int> chosen = {0, size - 1};
  while (static_cast<std::int64_t>(chosen.size()) < number)
    chosen.insert(std::uniform_int_distribution<int>(0, size - 1)(random));
  return {chosen.begin(), chosen.end()};
}

Array rows_of(const Array& from, const std::vector<int>& heads, const std::vector<int>& rows) {
  Array part(static_cast<int>(heads.size()), static_cast<int>(rows.size()), from.cols);
  auto to = part.values.begin();
  for (int head : heads)
    for (int row : rows) {
      const auto start = from.values.begin() + (static_cast<std::ptrdiff_t>(head) * from.rows + row) * from.cols;
      to = std::copy(start, start + from.cols, to);
    }
  return part;
}

/// A problem of its own: some rows of some heads. The mask, cut to those rows, has no geometry any more: a keep array.
struct Part {
  AttentionProblem problem;
  AttentionInputs inputs;
  std::vector<int> heads, rows;

  Part(const AttentionProblem& whole, const AttentionInputs& from, std::vector<int> heads_, std::vector<int> rows_)
      : problem(whole), heads(std::move(heads_)), rows(std::move(rows_)) {
    problem.batch = 1;
    problem.heads = problem.kv_heads = static_cast<int>(heads.size());
    problem.seqlen_q = static_cast<int>(rows.size());
    problem.softmax_scale = whole.scale();
    problem.causal = false;
    problem.window_left = problem.window_right = -1;
    std::vector<int> kv_heads, keys;
    for (int head : heads)
      kv_heads.push_back(head / whole.heads * whole.kv_heads +
                         kv_head_of(head % whole.heads, whole.heads, whole.kv_heads));
    for (int key = 0; key < whole.seqlen_k; ++key) keys.push_back(key);
    inputs = {rows_of(from.q, heads, rows), rows_of(from.k, kv_heads, keys), rows_of(from.v, kv_heads, keys), {}};
    if (whole.mask().left < 0 && whole.mask().right < 0) return;
    problem.dense_mask = true;
    inputs.keep = Array(1, problem.seqlen_q, problem.seqlen_k);
    for (int n = 0; n < problem.seqlen_q; ++n) {
      const Range kept = kept_keys(whole.mask(), rows[static_cast<std::size_t>(n)]);
      for (int key = kept.begin; key < kept.end; ++key) inputs.keep.at(0, n, key) = 1;
    }
  }
};

Verification as_reported(const flashscope::Verification& v) {
  Verification out;
  out.passed = v.passed;
  out.max_abs = v.max_abs;
  out.mean_abs = v.mean_abs;
  out.tolerance_used = v.tolerance_used;
  out.nonfinite = v.nonfinite;
  out.worst = v.worst;
  return out;
}

/// Computed on the CPU, for a whole problem or a part of one.
Yardstick yardstick_of(const Schedule& schedule, const AttentionProblem& problem, const AttentionInputs& inputs) {
  // flash_v1 rounds O to the storage dtype once per key tile: it is held to its own schedule, executed here.
  return {reference_attention(problem, inputs),
          schedule.algorithm() == "flash_v1"
              ? compute(*make_schedule(schedule.algorithm(), problem, schedule.tile()), inputs)
              : same_precision_attention(problem, inputs)};
}

/// Two float64 references of the same rows may differ by the order of their additions only.
void require_same(const char* name, const Array& gpu, const Array& cpu) {
  double magnitude = 0;
  for (double x : cpu.values)
    if (std::isfinite(x)) magnitude = std::max(magnitude, std::fabs(x));
  for (std::size_t n = 0; n < cpu.values.size(); ++n) {
    const double a = gpu.values[n], b = cpu.values[n];
    if (a == b || std::fabs(a - b) <= 1e-9 * magnitude) continue;
    throw Error(ErrorKind::internal, std::string("the float64 references of GPU and CPU differ in ") + name + ": " +
                                         std::to_string(a) + " and " + std::to_string(b) + "; nothing was checked");
  }
}

}  // namespace

AttentionInputs seeded_inputs(const AttentionProblem& problem, std::uint32_t seed) {
  std::mt19937 random(seed);
  Array q = seeded_array(shape_of(Tensor::Q, problem), problem.dtype, random);
  Array k = seeded_array(shape_of(Tensor::K, problem), problem.dtype, random);
  Array v = seeded_array(shape_of(Tensor::V, problem), problem.dtype, random);
  return {std::move(q), std::move(k), std::move(v), {}};
}

VerifiedOutputs verify_outputs(const Schedule& schedule, const AttentionInputs& inputs, const AttentionOutputs& outputs,
                               std::uint32_t seed, const std::function<Yardstick()>& full) {
  const AttentionProblem& p = schedule.problem();
  const std::int64_t row_work = std::int64_t{std::max(1, p.seqlen_k)} * p.head_dim;
  if (row_work * p.seqlen_q * p.num_heads() <= kFullWork) {
    const Yardstick y = yardstick_of(schedule, p, inputs);
    return {as_reported(flashscope::compare(outputs.o, y.reference.o, y.same_precision.o, p.dtype)),
            as_reported(flashscope::compare(outputs.lse, y.reference.lse, y.same_precision.lse, DType::fp32))};
  }
  std::mt19937 random(seed);
  std::vector<int> heads = sample(p.num_heads(), 4, random);
  const std::int64_t rows = kFullWork / (row_work * static_cast<std::int64_t>(heads.size()));
  const Part part(p, inputs, std::move(heads), sample(p.seqlen_q, std::max<std::int64_t>(2, rows), random));
  const Yardstick y = yardstick_of(schedule, part.problem, part.inputs);
  const Yardstick whole = full();
  require_same("O", rows_of(whole.reference.o, part.heads, part.rows), y.reference.o);
  require_same("LSE", rows_of(whole.reference.lse, part.heads, part.rows), y.reference.lse);
  const auto verified = [&](Array AttentionOutputs::*of, DType dtype) {
    const double largest = std::max(largest_error(whole.same_precision.*of, whole.reference.*of),
                                    largest_error(y.same_precision.*of, y.reference.*of));
    return as_reported(flashscope::compare(outputs.*of, whole.reference.*of, largest, dtype));
  };
  return {verified(&AttentionOutputs::o, p.dtype), verified(&AttentionOutputs::lse, DType::fp32)};
}

}  // namespace flashscope::kernels
