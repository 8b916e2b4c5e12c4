// Faults that kernels of this kind have had, on every rung: small inputs with answers known by hand.
#include <cmath>
#include <limits>

#include "gpu_support.h"
#include "poison.h"
#include "sim/error.h"

namespace flashscope::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void check_values(const std::vector<double>& found, const std::vector<double>& expected, double tolerance) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t n = 0; n < found.size(); ++n) {
    CAPTURE(n);
    if (std::isinf(expected[n]))
      CHECK(found[n] == expected[n]);
    else
      CHECK(std::fabs(found[n] - expected[n]) <= tolerance * std::max(1.0, std::fabs(expected[n])));
  }
}

TEST_CASE("scores far below any finite sentinel are scores, not masked keys") {
  for (DType dtype : {DType::fp32, DType::fp16})
    for (const std::string& rung : rungs(dtype)) {
      CAPTURE(rung);
      const AttentionProblem p = one_head(1, 2, 2, dtype);
      const AttentionInputs inputs{
          filled(1, 1, 2, {1, 1}), filled(1, 2, 2, {-60000, 0, -60000, -1}), filled(1, 2, 2, {1, 1, 2, 2}), {}};
      const AttentionOutputs outputs = check_rung(rung, p, inputs);
      if (dtype == DType::fp32) {
        check_values(outputs.o.values, {1.2689414, 1.2689414}, 1e-5);
        check_values(outputs.lse.values, {-59999.6867}, 1e-7);
      } else {
        CHECK(outputs.o.values[0] > 1);  // a row taken for empty would be 0
      }
    }
}

TEST_CASE("what was summed before the maximum rose is rescaled") {
  // Scores rise by ln 2 from one key tile to the next.
  for (const auto& [rung, dtype] : rungs()) {
    CAPTURE(rung);
    const AttentionProblem shape = one_head(1, 1, 1, dtype);
    const int bc = make_schedule(rung, shape)->tile().bc;
    AttentionProblem p = one_head(70, 3 * bc, 1, dtype);
    AttentionInputs inputs{Array(1, 70, 1), Array(1, 3 * bc, 1), Array(1, 3 * bc, 1), {}};
    for (double& q : inputs.q.values) q = 1;
    for (int key = 0; key < 3 * bc; ++key) {
      inputs.k.values[static_cast<std::size_t>(key)] = key / bc * static_cast<double>(std::log(2.0f));
      inputs.v.values[static_cast<std::size_t>(key)] = key / bc;
    }
    const AttentionOutputs outputs = run_rung(rung, p, inputs);
    check_values(outputs.o.values, std::vector<double>(70, 10.0 / 7), within(dtype, 1e-5));
    check_values(outputs.lse.values, std::vector<double>(70, std::log(7.0 * bc)), within(dtype, 1e-5));
  }
}

TEST_CASE("nothing past the end of a tile reaches a sum") {
  const AttentionInputs inputs{
      Array(1, 2, 1), filled(1, 5, 1, {0.5, -3, 2, 7, 1}), filled(1, 5, 1, {1, 2, 3, 4, 5}), {}};
  for (const auto& [rung, dtype] : rungs()) {
    CAPTURE(rung);
    fill_shared_memory_with_nan();
    const AttentionOutputs outputs = run_rung(rung, one_head(2, 5, 1, dtype), inputs);  // between NaN guard zones
    check_values(outputs.o.values, {3, 3}, within(dtype, 1e-6));
    check_values(outputs.lse.values, {std::log(5.0), std::log(5.0)}, within(dtype, 1e-6));
  }
}

TEST_CASE("causal is aligned to the bottom right") {
  for (const auto& [rung, dtype] : rungs()) {
    CAPTURE(rung);
    AttentionProblem p = one_head(2, 5, 1, dtype);
    p.causal = true;
    AttentionOutputs outputs =
        run_rung(rung, p, {Array(1, 2, 1), Array(1, 5, 1), filled(1, 5, 1, {1, 2, 3, 4, 5}), {}});
    check_values(outputs.o.values, {2.5, 3.0}, within(dtype, 1e-6));
    check_values(outputs.lse.values, {std::log(4.0), std::log(5.0)}, within(dtype, 1e-6));

    p = one_head(5, 2, 1, dtype);  // more queries than keys: the first three see none
    p.causal = true;
    outputs = run_rung(rung, p, {Array(1, 5, 1), Array(1, 2, 1), filled(1, 2, 1, {1, 2}), {}});
    check_values(outputs.o.values, {0, 0, 0, 1, 1.5}, within(dtype, 1e-6));
    check_values(outputs.lse.values, {-kInfinity, -kInfinity, -kInfinity, 0, std::log(2.0)}, within(dtype, 1e-6));
  }
}

TEST_CASE("windows count both ends") {
  for (const auto& [rung, dtype] : rungs()) {
    CAPTURE(rung);
    AttentionProblem p = one_head(5, 5, 1, dtype);
    const AttentionInputs inputs{Array(1, 5, 1), Array(1, 5, 1), filled(1, 5, 1, {1, 2, 3, 4, 5}), {}};
    p.window_left = 2;
    p.window_right = 0;
    check_values(run_rung(rung, p, inputs).o.values, {1, 1.5, 2, 3, 4}, within(dtype, 1e-6));
    p.window_left = 4;  // reaches the first key from every row: plain causal
    AttentionProblem causal = one_head(5, 5, 1, dtype);
    causal.causal = true;
    CHECK(run_rung(rung, p, inputs).o.values ==
          run_rung(rung, causal, inputs).o.values);

    p = one_head(4, 2, 1, dtype);
    p.window_right = INT32_MAX;
    check_values(
        run_rung(rung, p, {Array(1, 4, 1), Array(1, 2, 1), filled(1, 2, 1, {1, 2}), {}}).o.values,
        {1.5, 1.5, 1.5, 1.5}, within(dtype, 1e-6));
  }
}

TEST_CASE("lengths off every multiple of the tile, heads kept apart") {
  for (const auto& [rung, dtype] : rungs())
    for (int seqlen : {1, 31, 32, 33, 63, 64, 65})
      for (bool causal : {false, true}) {
        CAPTURE(rung);
        CAPTURE(seqlen);
        CAPTURE(causal);
        AttentionProblem p = one_head(seqlen, seqlen, 1, dtype);
        p.batch = p.heads = p.kv_heads = 2;
        p.causal = causal;
        AttentionInputs inputs{Array(4, seqlen, 1), Array(4, seqlen, 1), Array(4, seqlen, 1), {}};
        std::vector<double> o, lse;
        for (int head = 0; head < 4; ++head)
          for (int row = 0; row < seqlen; ++row) {
            inputs.v.at(head, row, 0) = row + 1000 * head;
            o.push_back((causal ? row : seqlen - 1) / 2.0 + 1000 * head);
            lse.push_back(std::log(causal ? row + 1.0 : seqlen));
          }
        const AttentionOutputs outputs = run_rung(rung, p, inputs);
        check_values(outputs.o.values, o, within(dtype, 1e-5));
        check_values(outputs.lse.values, lse, within(dtype, 1e-5));
      }
}

TEST_CASE("neighbouring query heads share a KV head") {
  for (const auto& [rung, dtype] : rungs()) {
    CAPTURE(rung);
    AttentionProblem p = one_head(1, 1, 1, dtype);
    p.heads = 4;
    p.kv_heads = 2;
    const AttentionOutputs outputs =
        run_rung(rung, p, {Array(4, 1, 1), Array(2, 1, 1), filled(2, 1, 1, {10, 20}), {}});
    CHECK(outputs.o.values == std::vector<double>{10, 10, 20, 20});
  }
}

TEST_CASE("lengths of zero") {
  for (const auto& [rung, dtype] : rungs()) {
    CAPTURE(rung);
    AttentionProblem p = one_head(70, 0, 8, dtype);
    AttentionOutputs outputs =
        run_rung(rung, p, {seeded_inputs(p, 1).q, Array(1, 0, 8), Array(1, 0, 8), {}});
    CHECK(outputs.o.values == std::vector<double>(70 * 8, 0.0));
    CHECK(outputs.lse.values == std::vector<double>(70, -kInfinity));
    p = one_head(0, 70, 8, dtype);
    CHECK(run_rung(rung, p, seeded_inputs(p, 1)).o.values.empty());
    p = one_head(5, 5, 8, dtype);
    p.batch = 0;
    CHECK(run_rung(rung, p, seeded_inputs(p, 1)).o.values.empty());
  }
}

TEST_CASE("more heads than a grid has in y or z") {
  for (const auto& [rung, dtype] : rungs())
    for (bool batches : {true, false}) {
      CAPTURE(rung);
      AttentionProblem p = one_head(16, 16, 16, dtype);
      (batches ? p.batch : p.heads) = 65536;
      p.kv_heads = p.heads;
      AttentionInputs inputs{Array(65536, 16, 16), Array(65536, 16, 16), Array(65536, 16, 16), {}};
      for (std::size_t n = 0; n < inputs.v.values.size(); ++n) inputs.v.values[n] = static_cast<double>(n / 256 % 1000);
      const AttentionOutputs outputs = run_rung(rung, p, inputs);
      CHECK(std::fabs(outputs.o.at(65535, 15, 15) - 535) < 1e-3);
      CHECK(std::fabs(outputs.o.at(1001, 0, 0) - 1) < 1e-5);
    }
}

TEST_CASE("every column of every width, or a refusal that names the widths") {
  for (DType dtype : {DType::fp32, DType::fp16, DType::bf16})
    for (const std::string& rung : rungs(dtype))
      for (int head_dim : {1, 7, 8, 24, 40, 72, 80, 96, 117, 118, 128, 192, 256, 257, 320}) {
        CAPTURE(rung);
        CAPTURE(head_dim);
        const AttentionProblem p = one_head(40, 37, head_dim, dtype);
        AttentionInputs inputs{Array(1, 40, head_dim), Array(1, 37, head_dim), Array(1, 37, head_dim), {}};
        for (int key = 0; key < 37; ++key)
          for (int c = 0; c < head_dim; ++c) inputs.v.at(0, key, c) = c;
        const auto schedule = make_schedule(rung, p);
        if (head_dim > 256) {
          CHECK(device().why_unsupported(*schedule).find("1 … 256") != std::string::npos);
          CHECK_THROWS_AS(device().run(*schedule, inputs), Error);
          continue;
        }
        const AttentionOutputs outputs = check_rung(rung, p, inputs);
        for (int row : {0, 31, 39})
          for (int c = 0; c < head_dim; ++c) CHECK(std::fabs(outputs.o.at(0, row, c) - c) <= 0.01 * c);
      }
}

TEST_CASE("S05: packed sequences, some empty, blocks, and K and V in pages: every width of every rung that takes them") {
  for (DType dtype : {DType::fp32, DType::fp16, DType::bf16})
    for (int head_dim : {24, 64, 100, 200}) {
      AttentionProblem p;
      p.heads = 2;
      p.kv_heads = 1;
      p.seqlen_q = 170;
      p.seqlen_k = 230;
      p.head_dim = head_dim;
      p.dtype = dtype;
      p.causal = true;
      fill_shared_memory_with_nan();
      AttentionInputs inputs = seeded_inputs(p, 7);
      Judge(p, inputs).check("split_kv", 3, 16);
      p.cu_seqlens_q = {0, 60, 60, 130, 170};
      p.cu_seqlens_k = {0, 75, 140, 140, 230};  // the third has queries and no keys
      p.block_mask.mask =
          std::make_shared<const BlockMask>(make_block_mask(BlockPattern::random, 0.4, 3, 20, p.seqlen_q, p.seqlen_k));
      {
        Judge judge(p, inputs);
        for (const std::string& rung : rungs(p)) judge.check(rung);
      }
      p.pass = Pass::backward;
      inputs = seeded_inputs(p, 7);
      Judge judge(p, inputs);
      for (const std::string& rung : backward_rungs(p)) judge.check(rung);
    }
}

TEST_CASE("a right answer that rounding puts half a unit away passes, a wrong small one fails") {
  for (const std::string& rung : rungs(DType::bf16)) {
    CAPTURE(rung);
    AttentionProblem p = one_head(1, 2, 1, DType::bf16);
    check_rung(rung, p, {Array(1, 1, 1), Array(1, 2, 1), filled(1, 2, 1, {100, 100.5}), {}});
  }
}

}  // namespace
}  // namespace flashscope::kernels
