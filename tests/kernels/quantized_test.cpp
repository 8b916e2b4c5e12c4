// How a rung that quantises is held to its schedule: on host memory, with its first kernel played by this test.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "host_memory.h"
#include "kernels/common/encode.h"
#include "kernels/common/verify.h"
#include "kernels/common/workspace.h"
#include "sim/compute/quantize.h"
#include "sim/compute/rounding.h"
#include "sim/error.h"
#include "sim/schedule/algorithms.h"
#include "sim/schedule/fp8_rung.h"

namespace flashscope::kernels {
namespace {

AttentionProblem fp8_problem() {
  AttentionProblem p;
  p.heads = 4;
  p.kv_heads = 2;
  p.seqlen_q = 130;
  p.seqlen_k = 150;
  p.head_dim = 40;
  p.dtype = DType::bf16;
  return p;
}

TEST_CASE("a byte of e4m3 is the value that rounding to fp8 leaves alone, and every such value has its byte") {
  for (int bits = 0; bits < 256; ++bits) {
    const double x = value_of_e4m3(static_cast<unsigned char>(bits));
    if ((bits & 0x7f) == 0x7f)
      CHECK(std::isnan(x));
    else
      CHECK(round_to(DType::fp8, x) == x);
    if ((bits & 0x7f) > 0 && (bits & 0x7f) < 0x7f)
      CHECK(std::fabs(x) > std::fabs(value_of_e4m3(static_cast<unsigned char>(bits - 1))));
  }
  CHECK(value_of_e4m3(0x7e) == 448);
  CHECK(value_of_e4m3(0x81) == std::ldexp(-1.0, -9));
  CHECK(value_of_e4m3(0x38) == 1);
}

TEST_CASE("quantised tensors are read back tile by tile: Q and K as rows, V as columns in the order of its keys") {
  HostMemory memory(1 << 24);
  const AttentionProblem p = fp8_problem();
  const auto schedule = make_schedule("flash_v3_fp8", p);
  const Workspace workspace(*schedule, seeded_inputs(p, 1), memory);
  const int width = 64, br = schedule->tile().br, bc = schedule->tile().bc;
  const int q_tiles = num_tiles(p.seqlen_q, br), kv_tiles = num_tiles(p.seqlen_k, bc);
  const auto byte_at = [](int n) { return static_cast<unsigned char>(n * 7 % 0x7f); };
  for (int n = 0; n < 4 * p.seqlen_q * width; ++n) workspace.params().q_fp8[n] = byte_at(n);
  for (int n = 0; n < 2 * p.seqlen_k * width; ++n) workspace.params().k_fp8[n] = byte_at(n + 1);
  for (int n = 0; n < 2 * kv_tiles * bc * width; ++n) workspace.params().v_fp8[n] = byte_at(n + 2);
  for (int n = 0; n < 4 * q_tiles; ++n) workspace.params().q_scale[n] = std::ldexp(1.0f, n);
  for (int n = 0; n < 2 * kv_tiles; ++n) {
    workspace.params().k_scale[n] = std::ldexp(1.0f, -n);
    workspace.params().v_scale[n] = std::ldexp(1.0f, 2 * n);
  }
  const AttentionInputs found = workspace.quantized();
  int different = 0;
  for (int head = 0; head < 4; ++head)
    for (int row = 0; row < p.seqlen_q; ++row)
      for (int d = 0; d < width; ++d)
        different +=
            found.q.at(head, row, d) !=
            std::ldexp(value_of_e4m3(byte_at((head * p.seqlen_q + row) * width + d)), head * q_tiles + row / br);
  for (int head = 0; head < 2; ++head)
    for (int j = 0; j < kv_tiles; ++j)
      for (int place = 0; place < bc; ++place)
        for (int d = 0; d < width; ++d) {
          const int key = j * bc + key_at(place), tile = head * kv_tiles + j;
          if (key >= p.seqlen_k) continue;
          different += found.k.at(head, key, d) !=
                       std::ldexp(value_of_e4m3(byte_at((head * p.seqlen_k + key) * width + d + 1)), -tile);
          different += found.v.at(head, key, d) !=
                       std::ldexp(value_of_e4m3(byte_at((tile * width + d) * bc + place + 2)), 2 * tile);
        }
  CHECK(different == 0);
}

/// What the first kernel should leave.
Array quantized(DType dtype, const Array& from, int tile_rows, int width, bool rotates) {
  Array to(from.heads, from.rows, width);
  for (int head = 0; head < from.heads; ++head)
    for (int first = 0; first < from.rows; first += tile_rows) {
      const int end = std::min(from.rows, first + tile_rows);
      std::vector<std::vector<float>> tile;
      float largest = 0;
      for (int row = first; row < end; ++row) {
        std::vector<float> x(static_cast<std::size_t>(width));
        for (int d = 0; d < from.cols; ++d) x[static_cast<std::size_t>(d)] = static_cast<float>(from.at(head, row, d));
        for (float value : x) largest = std::max(largest, std::fabs(value));
        tile.push_back(x);
      }
      float scale = fp8_scale(largest);
      if (rotates)
        scale = rotate_tile<float>(dtype, {first, end}, from.cols, width,
                                   [&](int row) { return tile[static_cast<std::size_t>(row - first)].data(); });
      for (int row = first; row < end; ++row)
        for (int d = 0; d < width; ++d) {
          const float x = tile[static_cast<std::size_t>(row - first)][static_cast<std::size_t>(d)];
          to.at(head, row, d) =
              static_cast<double>(scale) * round_to(DType::fp8, static_cast<double>(rotates ? x : x / scale));
        }
    }
  return to;
}

TEST_CASE("attention on the quantised numbers is attention on the inputs, but for what rounding did") {
  const AttentionProblem p = fp8_problem();
  const AttentionInputs inputs = seeded_inputs(p, 3);
  const AttentionInputs rounded{quantized(p.dtype, inputs.q, 128, 64, true),
                                quantized(p.dtype, inputs.k, 128, 64, true),
                                quantized(p.dtype, inputs.v, 128, 64, false),
                                {}};
  const AttentionOutputs right = reference_attention(p, inputs), o = reference_attention(quantized_problem(p), rounded);
  double largest = 0;
  for (int head = 0; head < 4; ++head)
    for (int row = 0; row < p.seqlen_q; ++row) {
      for (int d = 0; d < p.head_dim; ++d)
        largest = std::max(largest, std::fabs(o.o.at(head, row, d) - right.o.at(head, row, d)));
      for (int d = p.head_dim; d < 64; ++d) CHECK(o.o.at(head, row, d) == 0);
    }
  CHECK(largest > 1e-3);
  CHECK(largest < 0.2);
}

TEST_CASE("a large problem: a wrong byte of Q, K or V is found, and an O that is right but not the schedule's") {
  AttentionProblem p = fp8_problem();
  p.seqlen_q = 70;
  p.seqlen_k = 9000;
  p.head_dim = 16;
  for (bool causal : {false, true}) {
    p.causal = causal;
    const auto schedule = make_schedule("flash_v3_fp8", p);
    const AttentionInputs inputs = seeded_inputs(p, 5);
    AttentionOutputs outputs = compute(*schedule, inputs);
    for (double& x : outputs.lse.values) x = round_to(DType::fp32, x);
    FullReference full{reference_attention(p, inputs)};
    full.plain_o = largest_error(outputs.o, full.outputs.o);
    full.plain_lse = largest_error(outputs.lse, full.outputs.lse);
    full.quantized = {quantized(p.dtype, inputs.q, schedule->tile().br, 64, true),
                      quantized(p.dtype, inputs.k, schedule->tile().bc, 64, true),
                      quantized(p.dtype, inputs.v, schedule->tile().bc, 64, false),
                      {}};
    const auto kind = [&](const AttentionOutputs& o) {
      try {
        const VerifiedOutputs verified = verify_outputs(*schedule, inputs, o, 9, [&] { return full; });
        return verified.o.passed && verified.lse.passed ? 0 : 1;
      } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::verify);
        return 2;
      }
    };
    CHECK(kind(outputs) == 0);
    for (Array* array : {&full.quantized.q, &full.quantized.k, &full.quantized.v}) {
      double& x = array->at(array->heads - 1, array->rows - 1, 3);
      x *= 1.125;
      CHECK(kind(outputs) == 2);
      x /= 1.125;
    }
    AttentionOutputs other = outputs;
    for (std::size_t n = 0; n < other.o.values.size(); ++n)
      other.o.values[n] = round_to(p.dtype, full.outputs.o.values[n]);
    CHECK(kind(other) == 2);
    other.o.at(1, 33, 1) += 1;
    CHECK(kind(other) == 1);
  }
}

}  // namespace
}  // namespace flashscope::kernels
