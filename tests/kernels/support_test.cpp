// What can run, in words; the expected log; the seam for a device of a test's own.
#include <doctest/doctest.h>

#include <memory>
#include <random>
#include <set>
#include <string>

#include "../support/random_problem.h"
#include "kernels/common/support.h"
#include "kernels/kernels.h"
#include "sim/count/count.h"
#include "sim/error.h"
#include "sim/schedule/algorithms.h"

namespace flashscope::kernels {
namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

DeviceInfo h200() {
  DeviceInfo info;
  info.compute_capability = 90;
  info.smem_bytes_per_cta = 232'448;
  return info;
}

TEST_CASE("the three kinds of no GPU have three texts") {
  const DeviceSearch none{DeviceSearch::insufficient_driver, 0, 0, 13000, ""};
  const DeviceSearch old{DeviceSearch::insufficient_driver, 0, 12040, 13000, ""};
  const DeviceSearch empty{DeviceSearch::no_device, 0, 13000, 13000, ""};
  CHECK(contains(why_no_gpu(none), "no NVIDIA driver"));
  CHECK(contains(why_no_gpu(old), "supports CUDA 12.4"));
  CHECK(contains(why_no_gpu(old), "needs 13.0 or newer"));
  CHECK(contains(why_no_gpu(empty), "sees no GPU"));
  CHECK(why_no_gpu({DeviceSearch::found, 0, 13000, 13000, ""}) == why_no_gpu(empty));
  CHECK(std::set<std::string>{why_no_gpu(none), why_no_gpu(old), why_no_gpu(empty)}.size() == 3);
  CHECK(why_no_gpu({DeviceSearch::found, 1, 13000, 13000, "no error"}).empty());
}

std::vector<Algorithm> built() {
  std::vector<Algorithm> list;
  for (const Algorithm& algorithm : algorithms())
    if (!algorithm.rung.empty()) list.push_back(algorithm);
  return list;
}

TEST_CASE("a backward pass runs where it has a rung, with its own tile, and is else simulated only") {
  AttentionProblem p;
  p.pass = Pass::backward;
  for (int head_dim : {1, 32, 64, 100, 128, 256})
    for (const Algorithm& algorithm : algorithms(Pass::backward)) {
      p.head_dim = head_dim;
      const std::string why = kernels::why_unsupported(*make_schedule(algorithm.name, p), h200());
      if (algorithm.rung.empty())
        CHECK(contains(why, ": no kernel is built for the backward pass; those of three_pass, flash_v1, flash_v2"));
      else if ((algorithm.name == "flash_v2_tensor" || algorithm.name == "flash_v3") && head_dim > 128)
        CHECK(contains(why, "1 … 128"));
      else if (algorithm.name == "flash_v3" && head_dim % 8 != 0)
        CHECK(contains(why, "no multiple of 8: rows of whole 16 bytes are copied; multiples up to 128 run"));
      else
        CHECK(why == "");
    }
  CHECK(contains(kernels::why_unsupported(*make_schedule("flash_v2", p, {64, 64, 1}), h200()), "built with 32 x 32"));
  p.head_dim = 257;
  CHECK(contains(kernels::why_unsupported(*make_schedule("flash_v2", p), h200()), "1 … 256"));
}

TEST_CASE("what is not built is refused with what is") {
  AttentionProblem p;
  const auto why = [&](const char* algorithm, TileShape tile = {0, 0, 0}) {
    return kernels::why_unsupported(*make_schedule(algorithm, p, tile), h200());
  };
  for (const Algorithm& algorithm : built()) CHECK(why(algorithm.name.c_str()) == "");
  CHECK(why("split_kv", {0, 0, 0, false, 1024}) == "");
  CHECK(contains(why("split_kv", {0, 0, 0, false, 1025}), "up to 1024"));
  CHECK(contains(why("flash_v2", {32, 32, 1}), "built with 64 x 64"));
  CHECK(contains(why("flash_v2", {64, 64, 2}), "2 stages"));
  CHECK(contains(why("flash_v2", {64, 64, 1, true}), "first to last"));
  p.dtype = DType::fp8;
  CHECK(contains(why("flash_v2"), "fp32, fp16, bf16 are"));
  p.dtype = DType::bf16;
  for (int head_dim : {257, 320}) {
    p.head_dim = head_dim;
    for (const Algorithm& algorithm : built()) CHECK(contains(why(algorithm.name.c_str()), "1 … 256"));
  }
  for (int head_dim : {1, 7, 8, 24, 40, 72, 80, 96, 117, 118, 192, 256}) {
    p.head_dim = head_dim;
    for (const Algorithm& algorithm : built())
      if (head_dim % 8 == 0 || algorithm.name.rfind("flash_v3", 0) != 0)
        CHECK(why(algorithm.name.c_str()) == "");
      else
        CHECK(contains(why(algorithm.name.c_str()), "no multiple of 8: rows of whole 16 bytes are copied"));
  }
  p.dense_mask = true;
  CHECK(contains(why("flash_v2"), "causal and window run"));
}

TEST_CASE("packed sequences and block masks run on the tiled rungs, and elsewhere are refused with those that take them") {
  AttentionProblem packed, blocks;
  packed.cu_seqlens_q = packed.cu_seqlens_k = {0, 1000, packed.seqlen_q};
  blocks.block_mask.mask = std::make_shared<const BlockMask>(
      make_block_mask(BlockPattern::local, 0.25, 0, 128, blocks.seqlen_q, blocks.seqlen_k));
  for (AttentionProblem p : {packed, blocks})
    for (Pass pass : {Pass::forward, Pass::backward}) {
      p.pass = pass;
      for (const Algorithm& algorithm : algorithms(pass)) {
        const std::string why = kernels::why_unsupported(*make_schedule(algorithm.name, p), h200());
        CAPTURE(algorithm.name);
        const bool is_forward_alone = algorithm.name == "flash_v1" || algorithm.name == "flash_v2_tensor";
        if (algorithm.name == "three_pass" || algorithm.name == "flash_v2" || (pass == Pass::forward && is_forward_alone))
          CHECK(why == "");
        else
          CHECK(contains(why, "no packed sequences and no block mask; those of three_pass"));
      }
    }
}

TEST_CASE("flash_v3 and flash_v3_fp8 run on Hopper alone, with the tile that they take for the problem") {
  for (const char* name : {"flash_v3", "flash_v3_fp8"}) {
    AttentionProblem p;
    const auto why = [&](int capability, TileShape tile = {0, 0, 0}) {
      DeviceInfo device = h200();
      device.compute_capability = capability;
      return kernels::why_unsupported(*make_schedule(name, p, tile), device);
    };
    for (int capability : {75, 80, 89, 100, 120})
      CHECK(contains(why(capability), "needs compute capability 9.0 (Hopper): TMA and wgmma"));
    for (int head_dim : {8, 64, 72, 128, 136, 256})
      for (int seqlen : {1, 100, 1000, 5000, 20000})
        for (int heads : {1, 16, 512})
          for (bool causal : {false, true}) {
            p.head_dim = head_dim;
            p.seqlen_q = p.seqlen_k = seqlen;
            p.heads = p.kv_heads = heads;
            p.causal = causal;
            CHECK(why(90) == "");
          }
    CHECK(contains(why(90, {64, 128, 2}), "simulated only"));
    p.dtype = DType::fp32;
    CHECK(contains(why(90), "fp16, bf16 are"));
  }
}

TEST_CASE("shared memory over the device's limit is refused with both numbers") {
  AttentionProblem p;
  p.head_dim = 128;
  const auto schedule = make_schedule("flash_v1", p);
  DeviceInfo t4 = h200();
  t4.compute_capability = 75;
  t4.smem_bytes_per_cta = 65'536;
  const std::string text = kernels::why_unsupported(*schedule, t4);
  CHECK(contains(text, "needs " + std::to_string(schedule->kernels()[0].resources.smem_bytes) + " B"));
  CHECK(contains(text, "allows 65536 B"));
  t4.compute_capability = 70;
  CHECK(contains(kernels::why_unsupported(*schedule, t4), "capability 7.0; 7.5 or newer"));
}

TEST_CASE("the expected log holds the counted bytes and every operation but barriers, CTA by CTA") {
  std::mt19937 random(31);
  for (int round = 0; round < 60; ++round) {
    const AttentionProblem p = random_problem(random);
    for (const Algorithm& algorithm : algorithms()) {
      const auto schedule = make_schedule(algorithm.name, p);
      std::int64_t read = 0, write = 0;
      const LoggedOp* last = nullptr;
      const std::vector<LoggedOp> log = expected_log(*schedule);
      for (const LoggedOp& op : log) {
        CHECK(op.op != Op::barrier);
        if (op.op == Op::load) read += op.bytes;
        if (op.op == Op::store) write += op.bytes;
        if (last) CHECK(std::pair{last->kernel, last->cta} <= std::pair{op.kernel, op.cta});
        last = &op;
      }
      CAPTURE(algorithm.name);
      CHECK(read == schedule->closed_form().sm_read_bytes);
      CHECK(write == schedule->closed_form().sm_write_bytes);
    }
  }
}

/// The smallest device there can be: it answers with the reference. What the rest of the product tests itself with.
class ReferenceDevice final : public Device {
 public:
  DeviceInfo info() const override { return h200(); }
  std::string why_unsupported(const Schedule& schedule) const override {
    return kernels::why_unsupported(schedule, info());
  }
  AttentionOutputs run(const Schedule& schedule, const AttentionInputs& inputs) override {
    return reference_attention(schedule.problem(), inputs);
  }
  Measurement measure(const Schedule&, const MeasureOptions&) override {
    Measurement row;
    row.time_us = Measured<double>::unavailable("a test's device has no clock");
    return row;
  }
  std::vector<LoggedOp> log(const Schedule& schedule, const AttentionInputs&) override {
    return expected_log(schedule);
  }
};

TEST_CASE("a test can put its own device behind the seam") {
  const std::unique_ptr<Device> device = std::make_unique<ReferenceDevice>();
  AttentionProblem p;
  p.heads = p.kv_heads = 1;
  p.seqlen_q = p.seqlen_k = 3;
  p.head_dim = 1;
  const auto schedule = make_schedule("flash_v2", p);
  AttentionInputs inputs{Array(1, 3, 1), Array(1, 3, 1), Array(1, 3, 1), {}};
  inputs.v.values = {1, 2, 3};
  CHECK(device->run(*schedule, inputs).o.values == std::vector<double>{2, 2, 2});
  const Measurement row = device->measure(*schedule, {});
  CHECK_FALSE(row.time_us.value.has_value());
  CHECK_FALSE(row.time_us.reason.empty());
}

TEST_CASE("opening a device without one is an environment error that says why") {
  try {
    open_device()->info();  // on a machine with a GPU this succeeds
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::env);
    const std::string text = error.what();
    CHECK((contains(text, "without CUDA") || contains(text, "driver") || contains(text, "no GPU")));
  }
}

}  // namespace
}  // namespace flashscope::kernels
