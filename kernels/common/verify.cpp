#include "kernels/common/verify.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "kernels/common/in_parts.h"
#include "sim/compute/quantize.h"
#include "sim/compute/rounding.h"
#include "sim/compute/tolerance.h"
#include "sim/error.h"
#include "sim/schedule/algorithms.h"

namespace flashscope::kernels {
namespace {

constexpr std::int64_t kFullWork = std::int64_t{1} << 25;

/// Each head has a generator of its own, so that heads can be drawn side by side.
Array seeded_array(Tensor tensor, const AttentionProblem& problem, std::uint32_t seed) {
  const TensorShape shape = shape_of(tensor, problem);
  Array array(shape.heads, shape.rows, shape.cols);
  const std::int64_t head_elements = std::int64_t{shape.rows} * shape.cols;
  in_parts(shape.heads, kSmallestPart / std::max<std::int64_t>(1, head_elements), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t head = begin; head < end; ++head) {
      std::seed_seq seeds{seed, static_cast<std::uint32_t>(tensor), static_cast<std::uint32_t>(head)};
      std::mt19937 random(seeds);
      std::normal_distribution<double> normal;
      double* const values = array.values.data() + head * head_elements;
      for (std::int64_t n = 0; n < head_elements; ++n) values[n] = round_to(problem.dtype, normal(random));
    }
  });
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
    problem.block_mask = {};
    problem.cu_seqlens_q.clear();
    problem.cu_seqlens_k.clear();
    std::vector<int> kv_heads, keys;
    for (int head : heads)
      kv_heads.push_back(head / whole.heads * whole.kv_heads +
                         kv_head_of(head % whole.heads, whole.heads, whole.kv_heads));
    for (int key = 0; key < whole.seqlen_k; ++key) keys.push_back(key);
    inputs = {rows_of(from.q, heads, rows), rows_of(from.k, kv_heads, keys), rows_of(from.v, kv_heads, keys), {}};
    if (whole.pass == Pass::backward) inputs.d_out = rows_of(from.d_out, heads, rows);
    const SparseMask mask = whole.mask();
    if (mask.is_band() && mask.left < 0 && mask.right < 0) return;
    problem.dense_mask = true;
    inputs.keep = Array(1, problem.seqlen_q, problem.seqlen_k);
    for (int n = 0; n < problem.seqlen_q; ++n) {
      const int row = rows[static_cast<std::size_t>(n)];
      const Range seen = kept_keys(mask, row);
      for (int key = seen.begin; key < seen.end; ++key) inputs.keep.at(0, n, key) = is_kept(mask, row, key);
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

/// The reference and, for O and LSE, the yardstick; of a backward pass with gradients.
struct Yardstick {
  AttentionOutputs reference, same_precision;
};

/// Computed on the CPU, of a part of a problem.
Yardstick yardstick_of(const Schedule& schedule, const AttentionProblem& problem, const AttentionInputs& inputs) {
  AttentionProblem forward = problem;
  forward.pass = Pass::forward;
  const TileShape tile =
      schedule.problem().pass == Pass::forward ? schedule.tile() : forward_before(schedule)->tile();
  return {reference_attention(problem, inputs),
          is_held_to_itself(schedule) ? compute(*make_schedule(schedule.algorithm(), forward, tile), inputs)
                                      : same_precision_attention(forward, inputs)};
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

/// dK and dV of some keys, in float64 and apart from everything else, from LSE and O of all rows.
void require_same_key_gradients(const AttentionProblem& p, const AttentionInputs& inputs, const AttentionOutputs& full,
                                const std::vector<int>& kv_heads, const std::vector<int>& keys) {
  const int group = p.heads / p.kv_heads;
  const SparseMask mask = p.mask();
  Array d_k(static_cast<int>(kv_heads.size()), static_cast<int>(keys.size()), p.head_dim), d_v = d_k;
  for (int h = 0; h < d_k.heads; ++h)
    for (int n = 0; n < d_k.rows; ++n) {
      const int kv_head = kv_heads[static_cast<std::size_t>(h)], key = keys[static_cast<std::size_t>(n)];
      for (int head = kv_head * group; head < (kv_head + 1) * group; ++head)
        for (int row = 0; row < p.seqlen_q; ++row) {
          if (!is_kept(mask, row, key)) continue;
          double score = 0, d_p = 0, d = 0;
          for (int c = 0; c < p.head_dim; ++c) {
            score += inputs.q.at(head, row, c) * inputs.k.at(kv_head, key, c);
            d_p += inputs.d_out.at(head, row, c) * inputs.v.at(kv_head, key, c);
            d += inputs.d_out.at(head, row, c) * full.o.at(head, row, c);
          }
          const double weight = std::exp(p.scale() * score - full.lse.at(head, row, 0));
          for (int c = 0; c < p.head_dim; ++c) {
            d_v.at(h, n, c) += weight * inputs.d_out.at(head, row, c);
            d_k.at(h, n, c) += p.scale() * weight * (d_p - d) * inputs.q.at(head, row, c);
          }
        }
    }
  require_same("dK", rows_of(full.d_k, kv_heads, keys), d_k);
  require_same("dV", rows_of(full.d_v, kv_heads, keys), d_v);
}

double mean_distance(const Array& a, const Array& b) {
  double sum = 0;
  for (std::size_t n = 0; n < a.values.size(); ++n) sum += std::fabs(a.values[n] - b.values[n]);
  return sum / static_cast<double>(std::max<std::size_t>(1, a.values.size()));
}

/// O of a rung that quantises, beside its schedule executed: roundings of P that fall the other way, and what the tensor
/// cores cut off as they add products of bytes (they keep some 14 bits, which shows over thousands of keys), are less than
/// what rounding Q, K and V did. Other roundings than the schedule's, or none, put O as far from it as from the reference.
void require_near_schedule(const Array& output, const Array& executed, const Array& reference, DType dtype) {
  const double to_schedule = mean_distance(output, executed), to_reference = mean_distance(output, reference);
  double ulp = 0;  // mean
  for (double x : executed.values) ulp += ulp_of(dtype, x) / static_cast<double>(executed.values.size());
  if (to_schedule <= to_reference / 2 + ulp) return;
  throw Error(ErrorKind::verify, "O lies " + std::to_string(to_schedule) + " from its schedule, executed, and " +
                                     std::to_string(to_reference) +
                                     " from the reference (means of the compared rows): more than half; nothing was timed");
}

/// One tile of Q, K or V as the schedule has it quantised, times its scale; `rotates`: Q and K. V in float32, as in the
/// kernel.
Array quantized_tile(DType dtype, const Array& from, int head, Range rows, int width, bool rotates) {
  const auto size = static_cast<std::size_t>(width);
  std::vector<float> values(static_cast<std::size_t>(rows.end - rows.begin) * size);
  const auto row = [&](int n) { return values.data() + static_cast<std::size_t>(n - rows.begin) * size; };
  for (int n = rows.begin; n < rows.end; ++n)
    for (int d = 0; d < from.cols; ++d) row(n)[d] = static_cast<float>(from.at(head, n, d));
  const double scale =
      rotates ? rotate_tile<float>(dtype, rows, from.cols, width, row) : divide_by_scale<float>(rows, width, row);
  Array tile(1, rows.end - rows.begin, width);
  for (std::size_t n = 0; n < values.size(); ++n) tile.values[n] = scale * round_to(DType::fp8, values[n]);
  return tile;
}

/// Tile `tile` of `found` holds exactly what the schedule makes of `from`.
void require_quantized(const char* name, DType dtype, const Array& found, const Array& from, int head, int tile,
                       int tile_rows, bool rotates) {
  const Range rows = {tile * tile_rows, std::min(from.rows, (tile + 1) * tile_rows)};
  const Array right = quantized_tile(dtype, from, head, rows, found.cols, rotates);
  for (int n = rows.begin; n < rows.end; ++n)
    for (int d = 0; d < found.cols; ++d)
      if (found.at(head, n, d) != right.at(0, n - rows.begin, d))
        throw Error(ErrorKind::verify, std::string(name) + " is quantised to " + std::to_string(found.at(head, n, d)) +
                                           " at head " + std::to_string(head) + ", row " + std::to_string(n) +
                                           ", column " + std::to_string(d) + "; its schedule gives " +
                                           std::to_string(right.at(0, n - rows.begin, d)) + "; nothing was timed");
}

/// Of sampled query heads: the query tiles that have sampled rows, and every key tile.
void require_quantized_by_schedule(const Schedule& schedule, const AttentionInputs& inputs, const AttentionInputs& found,
                                   const std::vector<int>& heads, const std::vector<int>& rows) {
  const AttentionProblem& p = schedule.problem();
  const TileShape tile = schedule.tile();
  std::set<int> query_tiles, kv_heads;
  for (int row : rows) query_tiles.insert(row / tile.br);
  for (int head : heads) {
    for (int i : query_tiles) require_quantized("Q", p.dtype, found.q, inputs.q, head, i, tile.br, true);
    kv_heads.insert(head / p.heads * p.kv_heads + kv_head_of(head % p.heads, p.heads, p.kv_heads));
  }
  for (int head : kv_heads)
    for (int j = 0; j < num_tiles(p.seqlen_k, tile.bc); ++j) {
      require_quantized("K", p.dtype, found.k, inputs.k, head, j, tile.bc, true);
      require_quantized("V", p.dtype, found.v, inputs.v, head, j, tile.bc, false);
    }
}

void report_gradients(VerifiedOutputs& verified, const OfGradients<flashscope::Verification>& gradients) {
  verified.d_q = as_reported(gradients.d_q);
  verified.d_k = as_reported(gradients.d_k);
  verified.d_v = as_reported(gradients.d_v);
}

}  // namespace

AttentionInputs seeded_inputs(const AttentionProblem& problem, std::uint32_t seed) {
  AttentionInputs inputs{seeded_array(Tensor::Q, problem, seed), seeded_array(Tensor::K, problem, seed),
                         seeded_array(Tensor::V, problem, seed), {}};
  if (problem.pass == Pass::backward) inputs.d_out = seeded_array(Tensor::dO, problem, seed);
  return inputs;
}

AttentionProblem quantized_problem(const AttentionProblem& problem) {
  AttentionProblem p = problem;
  p.dtype = DType::fp32;
  p.head_dim = hopper_width(problem.head_dim);
  p.softmax_scale = problem.scale() / p.head_dim;
  return p;
}

VerifiedOutputs verify_outputs(const Schedule& schedule, const AttentionInputs& inputs, const AttentionOutputs& outputs,
                               std::uint32_t seed, const std::function<FullReference()>& full_reference) {
  const AttentionProblem& p = schedule.problem();
  const bool is_backward = p.pass == Pass::backward;
  const std::int64_t row_work = std::int64_t{std::max(1, p.seqlen_k)} * p.head_dim;
  const bool quantizes = algorithm_named(schedule.algorithm(), p.pass).quantizes;
  VerifiedOutputs verified;
  if (row_work * p.seqlen_q * p.num_heads() <= kFullWork) {
    OutputJudge judge(p, inputs);
    const JudgedOutputs judged = judge.judge(schedule, outputs);
    verified.o = as_reported(judged.o);
    verified.lse = as_reported(judged.lse);
    if (quantizes && verified.o.passed)
      require_near_schedule(outputs.o, compute(schedule, inputs).o, judge.reference().o, p.dtype);
    if (is_backward) report_gradients(verified, judged.gradients);
    return verified;
  }
  std::mt19937 random(seed);
  std::vector<int> heads = sample(p.num_heads(), 4, random);
  const std::int64_t rows = kFullWork / (row_work * static_cast<std::int64_t>(heads.size()));
  const Part part(p, inputs, std::move(heads), sample(p.seqlen_q, std::max<std::int64_t>(2, rows), random));
  const Yardstick y = yardstick_of(schedule, part.problem, part.inputs);
  const FullReference full = full_reference();
  const AttentionOutputs& reference = full.outputs;
  require_same("O", rows_of(reference.o, part.heads, part.rows), y.reference.o);
  require_same("LSE", rows_of(reference.lse, part.heads, part.rows), y.reference.lse);
  verified.o = as_reported(flashscope::compare(
      outputs.o, reference.o, std::max(full.plain_o, largest_error(y.same_precision.o, y.reference.o)), p.dtype));
  verified.lse = as_reported(flashscope::compare(
      outputs.lse, reference.lse, std::max(full.plain_lse, largest_error(y.same_precision.lse, y.reference.lse)),
      DType::fp32));
  if (quantizes) {
    require_quantized_by_schedule(schedule, inputs, full.quantized, part.heads, part.rows);
    if (verified.o.passed)
      require_near_schedule(rows_of(outputs.o, part.heads, part.rows), y.same_precision.o, y.reference.o, p.dtype);
  }
  if (!is_backward) return verified;
  require_same("dQ", rows_of(reference.d_q, part.heads, part.rows), y.reference.d_q);
  const std::int64_t key_work = std::int64_t{std::max(1, p.seqlen_q)} * (p.heads / p.kv_heads) * p.head_dim;
  std::vector<int> kv_heads = sample(p.num_kv_heads(), 4, random);
  const std::int64_t keys = kFullWork / (key_work * static_cast<std::int64_t>(kv_heads.size()));
  require_same_key_gradients(p, inputs, reference, kv_heads,
                             sample(p.seqlen_k, std::max<std::int64_t>(2, keys), random));
  report_gradients(verified, compare_gradients(schedule, outputs, reference, full.plain_errors, full.inherited));
  return verified;
}

}  // namespace flashscope::kernels
