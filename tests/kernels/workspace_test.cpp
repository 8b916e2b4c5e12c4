// Buffers, guard zones and memory limits, on host memory.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>

#include "host_memory.h"
#include "kernels/common/encode.h"
#include "kernels/common/verify.h"
#include "kernels/common/workspace.h"
#include "sim/compute/rounding.h"
#include "sim/error.h"
#include "sim/schedule/algorithms.h"

namespace flashscope::kernels {
namespace {

AttentionProblem small_problem() {
  AttentionProblem p;
  p.heads = 4;
  p.kv_heads = 2;
  p.seqlen_q = 33;
  p.seqlen_k = 65;
  p.head_dim = 7;
  return p;
}

TEST_CASE("every bit pattern of fp16 and bf16 survives decoding and encoding") {
  for (DType dtype : {DType::fp16, DType::bf16}) {
    std::vector<unsigned char> bytes;
    for (int bits = 0; bits < 0x10000; ++bits) {
      bytes.push_back(static_cast<unsigned char>(bits & 0xff));
      bytes.push_back(static_cast<unsigned char>(bits >> 8));
    }
    const std::vector<double> values = decode(dtype, bytes.data(), 0x10000);
    const std::vector<unsigned char> again = encode(dtype, values);
    REQUIRE(again.size() == bytes.size());
    for (std::size_t n = 0; n < values.size(); ++n) {
      if (std::isnan(values[n])) {
        CHECK(std::isnan(decode(dtype, &again[2 * n], 1)[0]));
        continue;
      }
      CHECK(again[2 * n] == bytes[2 * n]);
      CHECK(again[2 * n + 1] == bytes[2 * n + 1]);
      CHECK(round_to(dtype, values[n]) == values[n]);
    }
  }
  CHECK(decode(DType::fp16, encode(DType::fp16, {0.333251953125}).data(), 1)[0] == 0.333251953125);
  CHECK(decode(DType::fp32, encode(DType::fp32, {-1.5e-42}).data(), 1)[0] == static_cast<double>(-1.5e-42f));
}

TEST_CASE("K and V in pages: every row lies where the block table says, and what is spare of a last page is NaN") {
  HostMemory memory(1 << 24);
  AttentionProblem p = small_problem();
  p.batch = 3;
  p.dtype = DType::fp32;
  const AttentionInputs inputs = seeded_inputs(p, 3);
  Workspace workspace(*make_schedule("split_kv", p, {0, 0, 0, false, 1, false, 32}), inputs, memory);
  workspace.check_guards();
  const Pages& pages = workspace.params().pages;
  CHECK(pages.pitch == 8);  // 3 pages of a sequence, in whole sectors
  const auto* k = static_cast<const float*>(workspace.params().k);
  std::vector<bool> is_row(9 * 2 * 32, false);
  for (int head = 0; head < 6; ++head)
    for (int key = 0; key < p.seqlen_k; ++key) {
      const int place = pages.table[head / 2 * pages.pitch + pages.paging.page_of(key)];
      REQUIRE(place >= 0);
      REQUIRE(place < 9);
      const std::int64_t row = pages.paging.row_of(place, head % 2, 2, key);
      CHECK_FALSE(is_row[static_cast<std::size_t>(row)]);
      is_row[static_cast<std::size_t>(row)] = true;
      for (int col = 0; col < p.head_dim; ++col)
        CHECK(k[row * p.head_dim + col] == static_cast<float>(inputs.k.at(head, key, col)));
    }
  for (std::size_t row = 0; row < is_row.size(); ++row)
    if (!is_row[row]) CHECK(std::isnan(k[row * static_cast<std::size_t>(p.head_dim)]));
}

TEST_CASE("outputs start as NaN, inputs arrive rounded, and an untouched workspace passes its guards") {
  HostMemory memory(1 << 24);
  const AttentionProblem p = small_problem();
  const auto schedule = make_schedule("flash_v1", p);
  AttentionInputs inputs = seeded_inputs(p, 3);
  inputs.q.at(3, 32, 6) = 0.1;  // not a value of bf16
  Workspace workspace(*schedule, inputs, memory);
  CHECK(memory.alive.size() == schedule->tensors().size());
  workspace.check_guards();
  const AttentionOutputs outputs = workspace.outputs();
  CHECK(outputs.o.values.size() == 4u * 33 * 7);
  for (double x : outputs.o.values) CHECK(std::isnan(x));
  for (double x : outputs.lse.values) CHECK(std::isnan(x));
  const auto* q = static_cast<const unsigned char*>(workspace.params().q);
  CHECK(decode(DType::bf16, q + 2 * (4 * 33 * 7 - 1), 1)[0] == round_to(DType::bf16, 0.1));
  CHECK(reinterpret_cast<std::uintptr_t>(q) % 256 == 0);
}

TEST_CASE("one byte written outside a tensor is found, on either side, and the tensor named") {
  const AttentionProblem p = small_problem();
  const auto schedule = make_schedule("flash_v2", p);
  for (bool before : {false, true}) {
    HostMemory memory(1 << 24);
    Workspace workspace(*schedule, seeded_inputs(p, 3), memory);
    auto* o = static_cast<unsigned char*>(workspace.params().o);
    o[before ? -1 : 4 * 33 * 7 * 2] = 0;
    try {
      workspace.check_guards();
      FAIL("not found");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::internal);
      CHECK(std::string(error.what()).find(before ? "outside O: 1 B before" : "outside O: 0 B after") !=
            std::string::npos);
    }
  }
}

TEST_CASE("a backward workspace holds what the forward pass before it needs, dO among the inputs") {
  AttentionProblem p = small_problem();
  p.pass = Pass::backward;
  const auto schedule = make_schedule("flash_v1", p);  // whose forward pass keeps m and l, which backward does without
  AttentionInputs inputs = seeded_inputs(p, 3);
  inputs.d_out.at(3, 32, 6) = 0.1;
  AttentionProblem forward = p;
  forward.pass = Pass::forward;
  CHECK(seeded_inputs(forward, 3).v.values == inputs.v.values);
  CHECK(seeded_inputs(forward, 3).d_out.values.empty());
  HostMemory memory(1 << 24);
  Workspace workspace(*schedule, inputs, memory);
  CHECK(memory.alive.size() == schedule->tensors().size() + 2);
  std::int64_t used = 0;
  for (const auto& [data, bytes] : memory.alive) used += bytes;
  CHECK(workspace_bytes(*schedule) == used);
  const BackwardParams& params = workspace.params();
  for (const void* address : {params.d_o, static_cast<const void*>(params.d_q), static_cast<const void*>(params.d_k),
                              static_cast<const void*>(params.d_v), static_cast<const void*>(params.m)})
    CHECK(address != nullptr);
  CHECK(decode(DType::bf16, static_cast<const unsigned char*>(params.d_o) + 2 * (4 * 33 * 7 - 1), 1)[0] ==
        round_to(DType::bf16, 0.1));
  workspace.reset_outputs();
  const AttentionOutputs outputs = workspace.outputs();
  CHECK(outputs.d_q.values.size() == 4u * 33 * 7);
  CHECK(outputs.d_k.values.size() == 2u * 65 * 7);
  for (const Array* array : {&outputs.o, &outputs.lse, &outputs.d_q, &outputs.d_k, &outputs.d_v})
    for (double x : array->values) CHECK(std::isnan(x));
  CHECK(decode(DType::bf16, static_cast<const unsigned char*>(params.d_o), 1)[0] ==
        round_to(DType::bf16, inputs.d_out.values[0]));
  inputs.d_out = Array(4, 33, 8);
  CHECK_THROWS_AS(Workspace(*schedule, inputs, memory), Error);
}

TEST_CASE("gradients are verified one by one, in small problems and, against the GPU's reference, in large ones") {
  for (bool large : {false, true}) {
    AttentionProblem p = small_problem();
    p.pass = Pass::backward;
    p.causal = true;
    if (large) {
      p.heads = p.kv_heads = 1;
      p.seqlen_q = 300;
      p.seqlen_k = 7100;
      p.head_dim = 16;  // just above what the CPU checks whole
    }
    const auto schedule = make_schedule("flash_v2", p);
    const AttentionInputs inputs = seeded_inputs(p, 5);
    const AttentionOutputs reference = reference_attention(p, inputs);
    AttentionOutputs outputs = reference;
    for (Array* array : {&outputs.o, &outputs.d_q, &outputs.d_k, &outputs.d_v})
      for (double& x : array->values) x = round_to(p.dtype, x);
    for (double& x : outputs.lse.values) x = round_to(DType::fp32, x);
    const OfGradients<Array> inherited = inherited_from_forward(p, inputs, outputs, reference);
    const auto full = [&] { return FullReference{reference, {1e-3, 1e-3, 1e-3}, inherited}; };
    VerifiedOutputs verified = verify_outputs(*schedule, inputs, outputs, 9, full);
    for (const Verification* v : {&verified.o, &verified.lse, &verified.d_q, &verified.d_k, &verified.d_v})
      CHECK(v->passed);
    outputs.d_q.at(0, 3, 1) += 1;
    outputs.d_v.at(0, 40, 2) = std::numeric_limits<double>::quiet_NaN();
    verified = verify_outputs(*schedule, inputs, outputs, 9, full);
    CHECK_FALSE(verified.d_q.passed);
    CHECK(verified.d_k.passed);
    CHECK_FALSE(verified.d_v.passed);
    if (!large) continue;
    for (Array AttentionOutputs::* array : {&AttentionOutputs::d_q, &AttentionOutputs::d_k, &AttentionOutputs::d_v}) {
      const auto wrong = [&] {
        FullReference other = full();
        for (double& x : (other.outputs.*array).values) x += 1e-4;
        return other;
      };
      CHECK_THROWS_AS(verify_outputs(*schedule, inputs, outputs, 9, wrong), Error);
    }
  }
}

TEST_CASE("a failed allocation is a resource error and leaves nothing behind, fifty times") {
  const AttentionProblem p = small_problem();
  const auto schedule = make_schedule("three_pass", p);
  const AttentionInputs inputs = seeded_inputs(p, 1);
  HostMemory memory(1 << 24);
  for (int round = 0; round < 50; ++round) {
    memory.fail_allocation = 1 + round % static_cast<int>(schedule->tensors().size());
    CHECK_THROWS_AS(Workspace(*schedule, inputs, memory), Error);
    CHECK(memory.alive.empty());
  }
  memory.fail_allocation = 0;
  const Workspace workspace(*schedule, inputs, memory);
  CHECK(memory.alive.size() == schedule->tensors().size());
}

TEST_CASE("too little memory: needed, free and the largest sequence that fits") {
  AttentionProblem p;
  p.batch = 4;
  p.heads = p.kv_heads = 32;
  p.seqlen_q = p.seqlen_k = 32768;
  p.dtype = DType::fp32;
  const auto schedule = make_schedule("three_pass", p);
  CHECK(shape_of(Tensor::S, p).bytes() == 549'755'813'888);
  const std::int64_t free = std::int64_t{139} << 30;
  try {
    check_memory(*schedule, free);
    FAIL("fits");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::resource);
    const std::string text = error.what();
    CHECK(text.find(std::to_string(workspace_bytes(*schedule)) + " B") != std::string::npos);
    CHECK(text.find(std::to_string(free) + " B are free") != std::string::npos);
    const int largest = std::stoi(text.substr(text.rfind(' ') + 1));
    p.seqlen_q = p.seqlen_k = largest;
    CHECK_NOTHROW(check_memory(*make_schedule("three_pass", p), free));
    p.seqlen_q = p.seqlen_k = largest + 1;
    CHECK_THROWS_AS(check_memory(*make_schedule("three_pass", p), free), Error);
  }
}

TEST_CASE("inputs of another shape are refused by name") {
  const AttentionProblem p = small_problem();
  AttentionInputs inputs = seeded_inputs(p, 1);
  inputs.k = Array(4, 65, 7);
  HostMemory memory(1 << 24);
  try {
    const Workspace workspace(*make_schedule("flash_v2", p), inputs, memory);
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    CHECK(std::string(error.what()) == "k: found heads x rows x columns 4 x 65 x 7, expected 2 x 65 x 7");
  }
}

TEST_CASE("verification passes what the schedule computes and catches one wrong element, small or large") {
  for (const char* algorithm : {"three_pass", "flash_v1", "flash_v2"})
    for (bool large : {false, true}) {
      AttentionProblem p = small_problem();
      p.causal = true;
      if (large && std::string(algorithm) != "flash_v2") continue;  // once is enough for the time it takes
      if (large) {                                                  // above the work that is compared in full
        p.seqlen_q = 70;
        p.seqlen_k = 9000;
        p.head_dim = 16;
      }
      const auto schedule = make_schedule(algorithm, p);
      const AttentionInputs inputs = seeded_inputs(p, 5);
      const AttentionOutputs reference = reference_attention(p, inputs);
      AttentionOutputs outputs = reference;
      for (double& x : outputs.o.values) x = round_to(p.dtype, x);
      for (double& x : outputs.lse.values) x = round_to(DType::fp32, x);
      int asked = 0;
      const auto full = [&] { return ++asked, FullReference{reference}; };
      VerifiedOutputs verified = verify_outputs(*schedule, inputs, outputs, 9, full);
      CHECK(verified.o.passed);
      CHECK(verified.lse.passed);
      CHECK(asked == (large ? 1 : 0));
      outputs.o.at(1, 33, 1) += 1;
      outputs.lse.at(p.num_heads() - 1, p.seqlen_q - 1, 0) = std::numeric_limits<double>::quiet_NaN();
      verified = verify_outputs(*schedule, inputs, outputs, 9, full);
      CHECK_FALSE(verified.o.passed);
      CHECK_FALSE(verified.lse.passed);
      CHECK(verified.lse.nonfinite == 1);
      if (!large) continue;
      const auto wrong = [&] {
        AttentionOutputs other = reference;
        for (double& x : other.lse.values) x += 1e-6;
        return FullReference{other};
      };
      CHECK_THROWS_AS(verify_outputs(*schedule, inputs, outputs, 9, wrong), Error);
    }
}

}  // namespace
}  // namespace flashscope::kernels
