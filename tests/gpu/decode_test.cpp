// Laws of split_kv that other rungs do not have: any number of splits, of heads that share a KV head, of query rows.
#include <algorithm>
#include <tuple>

#include "gpu_support.h"
#include "kernels/common/facts.h"

namespace flashscope::kernels {
namespace {

int pick(std::mt19937& random, std::initializer_list<int> values) {
  return *(values.begin() + static_cast<std::ptrdiff_t>(random() % values.size()));
}

AttentionProblem any_decode_problem(std::mt19937& random) {
  AttentionProblem p;
  p.batch = pick(random, {1, 1, 2, 3});
  p.kv_heads = pick(random, {1, 1, 2, 3});
  p.heads = p.kv_heads * pick(random, {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 32, 33});
  p.seqlen_q = pick(random, {1, 1, 1, 2, 3, 5, 16, 33});
  p.seqlen_k = pick(random, {1, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 500, 1000, 2049});
  p.head_dim = pick(random, {1, 2, 7, 8, 12, 24, 32, 40, 64, 72, 80, 100, 128, 200, 250, 256});
  p.dtype = static_cast<DType>(pick(random, {1, 2, 3}));
  switch (pick(random, {0, 0, 1, 2})) {
    case 1: p.causal = true; break;
    case 2:
      p.window_left = pick(random, {-1, 0, 3, 40, 400});
      p.window_right = pick(random, {-1, 0, 5, INT32_MAX});
      break;
  }
  if (random() % 8 == 0) p.softmax_scale = random() % 2 ? -0.3 : 1;
  return p;
}

/// One that the reference on the CPU gets through in a moment.
AttentionProblem random_decode_problem(std::mt19937& random) {
  for (;;) {
    const AttentionProblem p = any_decode_problem(random);
    if (std::int64_t{p.num_heads()} * p.seqlen_q * p.seqlen_k * p.head_dim <= 10'000'000) return p;
  }
}

constexpr std::initializer_list<int> kSplits = {1, 2, 3, 7, 31, 64, 200};
constexpr std::initializer_list<int> kPageSizes = {0, 16, 32, 64, 256, 1024};

TEST_CASE("split_kv is right on 400 random decode problems") {
  const std::uint32_t seed = fresh_seed();
  MESSAGE("FLASHSCOPE_SEED=", seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 400; ++round) {
    const AttentionProblem p = random_decode_problem(random);
    const AttentionInputs inputs = seeded_inputs(p, static_cast<std::uint32_t>(random()));
    const int splits = pick(random, kSplits), page_size = pick(random, kPageSizes);
    CAPTURE(splits);
    CAPTURE(page_size);
    Judge(p, inputs).check("split_kv", splits, page_size);
  }
}

TEST_CASE("the log of split_kv is its schedule for any number of splits and heads") {
  std::mt19937 random(fresh_seed());
  for (int round = 0; round < 40; ++round) {
    AttentionProblem p = random_decode_problem(random);
    p.head_dim = pick(random, {33, 40, 48, 57, 64});
    p.dtype = round % 2 ? DType::fp32 : DType::bf16;
    if (round == 0) p.seqlen_k = 0;
    const auto schedule =
        make_schedule("split_kv", p, {0, 0, 0, false, pick(random, kSplits), false, pick(random, kPageSizes)});
    INFO(text_of(p), " splits ", schedule->tile().splits, " pages of ", schedule->tile().page_size);
    const std::vector<LoggedOp> expected = expected_log(*schedule);
    const std::vector<LoggedOp> log = device().log(*schedule, seeded_inputs(p, 1));
    const auto differs = std::mismatch(log.begin(), log.end(), expected.begin(), expected.end());
    CHECK_MESSAGE((differs.first == log.end() && differs.second == expected.end()), "first at operation ",
                  differs.first - log.begin(), " of ", log.size(), " logged and ", expected.size(), " expected");
  }
}

TEST_CASE("N10: a hundred decode runs give the same bits") {
  // (Each run lays its cache out in pages anew: a shorter one.)
  for (const auto& [dtype, page_size, seqlen] :
       {std::tuple{DType::fp32, 0, 10'000}, {DType::fp16, 0, 10'000}, {DType::bf16, 0, 10'000}, {DType::fp32, 16, 3'000},
        {DType::bf16, 16, 3'000}}) {
    AttentionProblem p;
    p.heads = 32;
    p.kv_heads = 4;
    p.seqlen_q = 1;
    p.seqlen_k = seqlen;
    p.head_dim = 128;
    p.dtype = dtype;
    const AttentionInputs inputs = seeded_inputs(p, 11);
    const auto schedule = make_schedule("split_kv", p, {0, 0, 0, false, seqlen / 100, false, page_size});
    CHECK(different_runs(*schedule, inputs, 99) == 0);
  }
}

TEST_CASE("K and V in pages give the bits of K and V in one piece") {
  for (DType dtype : {DType::fp32, DType::fp16, DType::bf16})
    for (int head_dim : {40, 63, 64, 128, 256}) {
      AttentionProblem p;
      p.batch = 2;
      p.heads = 8;
      p.kv_heads = 2;
      p.seqlen_q = 2;
      p.seqlen_k = 1111;
      p.head_dim = head_dim;
      p.dtype = dtype;
      p.causal = true;
      const AttentionInputs inputs = seeded_inputs(p, 11);
      const AttentionOutputs whole = device().run(*make_schedule("split_kv", p, {0, 0, 0, false, 5}), inputs);
      for (int page_size : {16, 32, 64, 256, 2048}) {
        const AttentionOutputs paged =
            device().run(*make_schedule("split_kv", p, {0, 0, 0, false, 5, false, page_size}), inputs);
        INFO(text_of(p), " pages of ", page_size);
        CHECK(paged.o.values == whole.o.values);
        CHECK(paged.lse.values == whole.lse.values);
      }
    }
}

TEST_CASE("the most splits that are built are right, most of them without a key") {
  AttentionProblem p;
  p.heads = 20;
  p.kv_heads = 1;
  p.seqlen_q = 3;
  p.seqlen_k = 700;
  p.causal = true;
  const AttentionInputs inputs = seeded_inputs(p, 5);
  for (DType dtype : {DType::fp32, DType::bf16}) {
    p.dtype = dtype;
    Judge(p, inputs).check("split_kv", 1024);
  }
}

}  // namespace
}  // namespace flashscope::kernels
