// flash_v3_fp8 on a GPU: held to its own schedule executed (the tolerance rule with that as the yardstick). Its RMSE is
// printed beside the one that FlashAttention-3 reports.
#include <cmath>
#include <tuple>

#include "gpu_support.h"
#include "kernels/common/facts.h"
#include "kernels/common/in_parts.h"
#include "sim/compute/rounding.h"
#include "sim/schedule/fp8_rung.h"
#include "tests/support/outlier_inputs.h"

namespace flashscope::kernels {
namespace {

int pick(std::mt19937& random, std::initializer_list<int> values) {
  return *(values.begin() + static_cast<std::ptrdiff_t>(random() % values.size()));
}

/// True, and said in the output, where this GPU cannot run it.
bool skipped(const AttentionProblem& p) {
  const std::string why = device().why_unsupported(*make_schedule("flash_v3_fp8", p));
  if (!why.empty()) MESSAGE("skipped: ", why);
  return !why.empty();
}

AttentionProblem random_fp8_problem(std::mt19937& random) {
  AttentionProblem p;
  do {
    p.batch = pick(random, {1, 1, 2, 3});
    p.kv_heads = pick(random, {1, 1, 2, 3});
    p.heads = p.kv_heads * pick(random, {1, 2, 4});
    p.seqlen_q = pick(random, {1, 7, 63, 64, 65, 127, 128, 129, 257, 700});
    p.seqlen_k = pick(random, {1, 7, 31, 63, 64, 65, 127, 129, 193, 333, 900, 4097});
    p.head_dim = pick(random, {8, 24, 40, 64, 72, 104, 128, 128, 128, 200, 256});
  } while (std::int64_t{p.num_heads()} * p.seqlen_q * p.seqlen_k * p.head_dim > 1 << 26);  // the CPU does it too
  p.dtype = pick(random, {0, 1}) ? DType::fp16 : DType::bf16;
  switch (pick(random, {0, 1, 2})) {
    case 1: p.causal = true; break;
    case 2:
      p.window_left = pick(random, {-1, 0, 3, 40, 200});
      p.window_right = pick(random, {-1, 0, 5, 64, INT32_MAX});
      break;
  }
  if (random() % 8 == 0) p.softmax_scale = random() % 2 ? -0.1 : 0.25;
  return p;
}

double mean_distance(const Array& a, const Array& b) {
  double sum = 0;
  for (std::size_t n = 0; n < a.values.size(); ++n) sum += std::fabs(a.values[n] - b.values[n]);
  return sum / static_cast<double>(a.values.size());
}

TEST_CASE("flash_v3_fp8 is right on 150 random problems, and far nearer to its schedule than to the reference") {
  const std::uint32_t seed = fresh_seed();
  MESSAGE("FLASHSCOPE_SEED=", seed);
  std::mt19937 random(seed);
  double to_schedule = 0, to_reference = 0;
  for (int round = 0; round < 150; ++round) {
    const AttentionProblem p = random_fp8_problem(random);
    if (skipped(p)) return;
    const AttentionInputs inputs = seeded_inputs(p, static_cast<std::uint32_t>(random()));
    const AttentionOutputs out = Judge(p, inputs).check("flash_v3_fp8");
    INFO(text_of(p));
    const AttentionOutputs executed = compute(*make_schedule("flash_v3_fp8", p), inputs);
    to_schedule += mean_distance(out.o, executed.o);
    to_reference += mean_distance(executed.o, reference_attention(p, inputs).o);
  }
  MESSAGE("mean |O - executed| ", to_schedule / 150, ", mean |executed - reference| ", to_reference / 150);
  CHECK(to_schedule < to_reference / 4);
}

TEST_CASE("flash_v3_fp8: no keys, no queries, no batch, empty rows, and more heads than a grid has in y") {
  AttentionProblem p = one_head(70, 0, 8, DType::bf16);
  if (skipped(p)) return;
  const auto run = [&](const AttentionInputs& inputs) { return device().run(*make_schedule("flash_v3_fp8", p), inputs); };
  AttentionOutputs outputs = run(seeded_inputs(p, 1));
  CHECK(outputs.o.values == std::vector<double>(70 * 8, 0.0));
  CHECK(outputs.lse.values == std::vector<double>(70, -INFINITY));
  p = one_head(0, 70, 8, DType::bf16);
  CHECK(run(seeded_inputs(p, 1)).o.values.empty());
  p = one_head(5, 5, 8, DType::bf16);
  p.batch = 0;
  CHECK(run(seeded_inputs(p, 1)).o.values.empty());
  p = one_head(5, 2, 8, DType::bf16);  // the first three rows see no key
  p.causal = true;
  outputs = run(seeded_inputs(p, 1));
  for (int row = 0; row < 3; ++row) CHECK(outputs.lse.at(0, row, 0) == -INFINITY);
  CHECK(std::isfinite(outputs.lse.at(0, 3, 0)));
  p = one_head(16, 16, 16, DType::fp16);
  p.heads = p.kv_heads = 65536;
  AttentionInputs inputs{Array(65536, 16, 16), Array(65536, 16, 16), Array(65536, 16, 16), {}};
  for (std::size_t n = 0; n < inputs.v.values.size(); ++n) inputs.v.values[n] = static_cast<double>(n / 256 % 16);
  outputs = run(inputs);
  CHECK(outputs.o.at(65535, 15, 15) == 15);
  CHECK(outputs.o.at(1001, 0, 0) == 1001 % 16);
}

TEST_CASE("N07: weights never pass the largest number of fp8 (on the kernel)") {
  for (int head_dim : {64, 128, 256})
    for (double factor : {1.0, 2.0})
      for (bool reversed : {false, true}) {
        AttentionProblem p = one_head(1, 0, head_dim, DType::fp16);
        p.seqlen_k = 4097;  // for the tile that long rows have
        const int bc = make_schedule("flash_v3_fp8", p)->tile().bc;
        p.seqlen_k = bc * (4097 / bc) + 1;
        p.window_left = 1;  // the row sees two keys: the last of a tile and the first of the next
        p.window_right = 0;
        p.softmax_scale = std::log(2.0);
        if (skipped(p)) return;
        AttentionInputs inputs{Array(1, 1, head_dim), Array(1, p.seqlen_k, head_dim), Array(1, p.seqlen_k, head_dim), {}};
        const int first = p.seqlen_k - 2, second = p.seqlen_k - 1;
        const double unit = factor * factor / 4;
        inputs.q.at(0, 0, 0) = 1 / factor;
        inputs.k.at(0, reversed ? first : second, 0) = 4 * factor;
        for (int d = 0; d < head_dim; ++d) {
          inputs.v.at(0, first, d) = (reversed ? 3 : 1) * unit;
          inputs.v.at(0, second, d) = (reversed ? 1 : 3) * unit;
        }
        const AttentionOutputs out = device().run(*make_schedule("flash_v3_fp8", p), inputs);
        CAPTURE(head_dim);
        for (int d = 0; d < head_dim; ++d) CHECK(std::fabs(out.o.at(0, 0, d) / unit - 49.0 / 17) < 0.02);  // of 0.15
        CHECK(std::fabs(out.lse.at(0, 0, 0) - std::log(17.0)) < 1e-4);
      }
}

/// What the kernel rotates back: rows times the inverse of its rotation, H D x = y for x = D H y / width.
Array rotated_back(const Array& from, DType dtype) {
  Array result = from;
  std::vector<double> row(static_cast<std::size_t>(from.cols));
  for (int head = 0; head < from.heads; ++head)
    for (int n = 0; n < from.rows; ++n) {
      for (int d = 0; d < from.cols; ++d)  // rotate_row() multiplies with the signs first: here they come last
        row[static_cast<std::size_t>(d)] = from.at(head, n, d) * static_cast<double>(rotation_sign(d));
      rotate_row(row.data(), from.cols);
      for (int d = 0; d < from.cols; ++d)
        result.at(head, n, d) = round_to(dtype, row[static_cast<std::size_t>(d)] * static_cast<double>(rotation_sign(d)) /
                                                    std::sqrt(static_cast<double>(from.cols)));
    }
  return result;
}

/// O of the reference; every head is a problem of its own, on a core of its own.
Array reference_by_heads(const AttentionProblem& p, const AttentionInputs& inputs) {
  Array o(p.num_heads(), p.seqlen_q, p.head_dim);
  AttentionProblem one = p;
  one.heads = one.kv_heads = 1;
  const auto head_of = [](const Array& from, std::int64_t head) {
    Array to(1, from.rows, from.cols);
    std::copy_n(from.values.begin() + head * std::int64_t{from.rows} * from.cols, to.values.size(), to.values.begin());
    return to;
  };
  in_parts(p.heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t head = begin; head < end; ++head) {
      const AttentionInputs some{head_of(inputs.q, head), head_of(inputs.k, head), head_of(inputs.v, head), {}};
      const Array part = reference_attention(one, some).o;
      std::copy(part.values.begin(), part.values.end(),
                o.values.begin() + head * std::int64_t{p.seqlen_q} * p.head_dim);
    }
  });
  return o;
}

// The published figure is reported beside the kernel's, not held: the paper does not say for how many keys it is, and this
// rung meets it for some numbers of keys and draws and misses it for others (docs/deviations.md has both). What is held is
// what the rotation is for.
TEST_CASE("with outliers: RMSE beside FlashAttention-3's, and what it is without the rotation") {
  for (DType dtype : {DType::fp16, DType::bf16})
    for (int seqlen_k : {512, 1024, 2048, 4096, 8192, 16384}) {
      AttentionProblem p;
      // One row in eight has an outlier of its own, and few of these decide: 8192 rows, or the figure is luck. (Rows know
      // nothing of each other: queries need not be as many as keys.)
      p.heads = p.kv_heads = 16;
      p.seqlen_q = 512;
      p.seqlen_k = seqlen_k;
      p.head_dim = 128;
      p.dtype = dtype;
      if (skipped(p)) return;
      const AttentionInputs inputs = outlier_inputs(p, 20260101);
      const AttentionInputs unrotated{rotated_back(inputs.q, dtype), rotated_back(inputs.k, dtype), inputs.v, {}};
      const auto schedule = make_schedule("flash_v3_fp8", p);
      const Array right = reference_by_heads(p, inputs);
      const double rotated = rms_error(device().run(*schedule, inputs).o, right);
      const double straight = rms_error(device().run(*schedule, unrotated).o, right);
      MESSAGE(std::string(name_of(dtype)), " seqlen_k ", seqlen_k, ": RMSE ", rotated, ", without rotation ", straight,
              ", published ", kPublishedRmse, rotated <= kPublishedRmse ? ": met" : ": missed");
      CHECK(rotated < straight / 1.5);
    }
}

// Above the size that the CPU compares in full: E comes from float64 attention on the numbers that the first kernel left,
// which must be the schedule's bit by bit (verify_outputs).
TEST_CASE("flash_v3_fp8 passes the check before a measurement, large problems of each width") {
  for (DType dtype : {DType::fp16, DType::bf16})
    for (int head_dim : {40, 64, 128, 256})
      for (bool causal : {false, true}) {
        AttentionProblem p;
        p.heads = 4;
        p.kv_heads = 2;
        p.seqlen_q = 1000;
        p.seqlen_k = 4500;
        p.head_dim = head_dim;
        p.dtype = dtype;
        p.causal = causal;
        if (skipped(p)) return;
        INFO(text_of(p));
        const Measurement row = device().measure(*make_schedule("flash_v3_fp8", p), {});
        CHECK(row.o.passed);
        CHECK(row.lse.passed);
      }
}

TEST_CASE("flash_v3_fp8: six thousand runs give the same bits") {  // a race between copies and reads would show in some
  for (const auto& [head_dim, heads, runs] : {std::tuple{64, 4, 2000}, {128, 4, 2000}, {256, 4, 1900}, {128, 150, 100}}) {
    AttentionProblem p;
    p.heads = p.kv_heads = heads;
    p.seqlen_q = 130;
    p.seqlen_k = 700;
    p.head_dim = head_dim;
    p.dtype = DType::bf16;
    if (skipped(p)) return;
    CAPTURE(head_dim);
    CAPTURE(heads);
    CHECK(different_runs(*make_schedule("flash_v3_fp8", p), seeded_inputs(p, 3), runs) == 0);
  }
}

TEST_CASE("the log of flash_v3_fp8 is its schedule, both kernels") {
  std::mt19937 random(fresh_seed());
  for (int round = 0; round < 20; ++round) {
    AttentionProblem p = random_fp8_problem(random);
    p.head_dim = pick(random, {40, 48, 56, 64});
    p.dtype = DType::bf16;
    if (skipped(p)) return;
    const auto schedule = make_schedule("flash_v3_fp8", p);
    INFO(text_of(p));
    check_log(expected_log(*schedule), device().log(*schedule, seeded_inputs(p, 1)));
  }
}

TEST_CASE("flash_v3_fp8 spills no register") {
  for (DType dtype : {DType::fp16, DType::bf16})
    for (int head_dim : {64, 128, 256})
      for (int seqlen : {1000, 8000}) {
        AttentionProblem p;
        p.dtype = dtype;
        p.head_dim = head_dim;
        p.seqlen_q = p.seqlen_k = seqlen;
        if (skipped(p)) return;
        const auto schedule = make_schedule("flash_v3_fp8", p);
        for (int k = 0; k < 2; ++k) {
          const KernelFacts facts = kernel_facts(*schedule, k);
          CAPTURE(schedule->kernels()[static_cast<std::size_t>(k)].name);
          CHECK(facts.local_bytes_per_thread == 0);
          CHECK(facts.registers_per_thread <= schedule->kernels()[static_cast<std::size_t>(k)].resources.registers_per_thread);
          CHECK(facts.ctas_per_sm >= 1);
        }
      }
}

}  // namespace
}  // namespace flashscope::kernels
