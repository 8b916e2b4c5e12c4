// Laws of the SM model on a machine of round numbers, and the work of the FMA rungs against what is counted by hand.
#include "sim/engine/sm_model.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <initializer_list>
#include <random>
#include <utility>

#include "sim/schedule/algorithms.h"
#include "sim/schedule/fma_rungs.h"
#include "sim/schedule/fma_work.h"
#include "tests/support/rounds.h"
#include "tests/support/test_machine.h"

namespace flashscope {
namespace {

constexpr int kWarps = 4;  // one for each scheduler

TEST_CASE("a warp alone takes its stalls and its waits; a scheduler takes one instruction a clock") {
  const SmModel model(test_machine());
  const WarpWork dependent = WarpWork().then({.instructions = 10, .clocks = 40, .fma = 10});
  CHECK(model.clocks(dependent, kWarps, 1) == 40);
  CHECK(model.clocks(dependent, kWarps, 3) == 60);  // starts 10 apart, then 40
  const WarpWork waits = WarpWork().then({.instructions = 10, .clocks = 10, .mufu = 1, .waits = 2});
  CHECK(model.clocks(waits, kWarps, 1) == 10 + 2 * 30);
  CHECK(model.clocks(WarpWork(), kWarps, 2) == 0);
}

TEST_CASE("each unit takes as long as its lanes say") {
  const SmModel model(test_machine());
  CHECK(model.clocks(WarpWork().then({.instructions = 8, .alu = 8}), kWarps, 1) == 16);   // 64 lanes an SM
  CHECK(model.clocks(WarpWork().then({.instructions = 8, .mufu = 8}), kWarps, 1) == 64);  // 16 lanes an SM
  CHECK(model.clocks(WarpWork().then({.instructions = 8, .fma = 8}), kWarps, 1) == 8);
  CHECK(model.clocks(WarpWork().then({.instructions = 8, .fma = 8, .bank_reads = 12}), kWarps, 1) == 12);
  // Four schedulers share the shared-memory pipe; results come a latency after the last wavefront.
  CHECK(model.clocks(WarpWork().then({.instructions = 2, .wavefronts = 8, .waits = 1}), kWarps, 1) == 4 * 8 + 30);
  CHECK(model.clocks(WarpWork().then({.instructions = 2, .wavefronts = 8}), 1, 1) == 8);
}

TEST_CASE("what one stretch prefetches, the stretch after the next waits for") {
  const SmModel model(test_machine());
  const Stretch load = {.instructions = 1, .clocks = 1, .wavefronts = 1, .prefetches = true};
  const Stretch multiply = {.instructions = 10, .clocks = 10, .fma = 10};
  CHECK(model.clocks(WarpWork().then(load).then(multiply).then(multiply), 4, 1) == 4 + 30 + 10);
  CHECK(model.clocks(WarpWork().then(load).then(multiply), 4, 1) == 4 + 30);  // and so does the end
}

TEST_CASE("CTAs that share an SM finish after one alone, and before all that they do would be over one by one") {
  const unsigned seed = std::random_device{}();
  INFO("seed ", seed);
  std::mt19937 random(seed);
  const auto draw = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  const SmModel model(test_machine());
  for (int round = 0; round < rounds(200); ++round) {
    WarpWork work;
    Clocks one_by_one = 0;  // of one warp: nothing overlaps
    for (int n = draw(1, 6); n > 0; --n) {
      Stretch s;
      s.instructions = draw(1, 60);
      s.clocks = draw(0, 120);
      s.fma = draw(0, s.instructions);
      s.alu = draw(0, s.instructions - s.fma);
      s.mufu = draw(0, 3);
      s.wavefronts = draw(0, 20);
      s.waits = draw(0, 3);
      const int times = draw(1, 40);
      work.then(s, times);
      one_by_one +=
          times * (std::max({s.instructions, s.clocks, 2 * s.alu, 8 * s.mufu}) + 4 * s.wavefronts + 30 * (s.waits + 1));
    }
    const int warps = draw(1, 12), each = (warps + 3) / 4;  // warps of a scheduler
    const Clocks one = model.clocks(work, warps, 1);
    CHECK(one <= each * one_by_one);
    for (int ctas = 2; ctas <= 5; ++ctas) {
      CHECK(model.clocks(work, warps, ctas) >= one);
      CHECK(model.clocks(work, warps, ctas) <= ctas * each * one_by_one);
    }
  }
}

TEST_CASE("units work beside each other: one warp's exponentials run under another's multiply-adds") {
  const SmModel model(test_machine());
  const WarpWork work = WarpWork().then({.instructions = 64, .mufu = 64}).then({.instructions = 512, .fma = 512});
  CHECK(model.clocks(work, kWarps, 1) == 8 * 64 + 512);
  const Clocks two = model.clocks(work, kWarps, 2);
  CHECK(two >= 2 * 8 * 64 + 512);    // all exponentials, then the multiply-adds of who is last
  CHECK(two < 2 * (8 * 64 + 512));  // less than one after the other
}

TEST_CASE("a product of mma.sync holds its scheduler: what other warps issue is added to it") {
  Machine machine = test_machine();
  machine.mma_flops_per_clk.value = 4096.0 * 4 / 6;  // 6 clocks a product, as flashscope_mma_probe saw alone
  const SmModel model(machine);
  constexpr int kProducts = 1000, kCtas = 2;
  const auto clocks = [&](int others) {  // of a product and what goes with it
    const WarpWork work =
        WarpWork().then({.instructions = kProducts * (1 + others), .fma = kProducts * others, .mma = kProducts});
    return static_cast<double>(model.clocks(work, kWarps, kCtas)) / (kProducts * kCtas);
  };
  // What the probe says for 0, 1, 3, 4 and 6 multiply-adds, within a twentieth.
  const std::pair<int, double> measured[] = {{0, 6.0}, {1, 6.8}, {3, 8.7}, {4, 9.5}, {6, 11.6}};
  for (const auto& [others, expected] : measured) CHECK(clocks(others) == doctest::Approx(expected).epsilon(0.05));
}

TEST_CASE("warps of a CTA that meet wait for the last; those of other CTAs do not") {
  const SmModel model(test_machine());
  const WarpWork work = WarpWork().then({.instructions = 10, .clocks = 40}).then({.meets = true}).then({.instructions = 1});
  CHECK(model.clocks(work, 2 * kWarps, 1) == 10 + 40 + 1 + 1);  // both go on when the second has come
  CHECK(model.clocks(work, kWarps, 2) == 10 + 40 + 1);
}

TEST_CASE("a warpgroup's products: waited for, left, behind the next or with the last one") {
  Machine machine = test_machine();
  machine.tensor_fp16_flops_per_clk.value = 4096;  // 4 clocks a product
  const SmModel model(machine);
  const auto product = [](Product kind) { return Stretch{.instructions = 1, .wgmma = 25, .product = kind}; };
  const Stretch other = {.instructions = 60, .clocks = 60};
  const auto clocks = [&](std::initializer_list<Stretch> stretches) {
    WarpWork work;
    for (const Stretch& s : stretches) work.then(s);
    return model.clocks(work, kWarps, 1);
  };
  CHECK(clocks({product(Product::waited), other}) == 100 + 60);
  CHECK(clocks({product(Product::left), other}) == 100);
  CHECK(clocks({product(Product::waited), other, product(Product::with_last)}) == 200);
  // The second waits for the first, which ran behind the product between them; it runs when nothing comes any more.
  CHECK(clocks({product(Product::after_next), product(Product::waited), other, product(Product::after_next), other}) ==
        1 + 200 + 60 + 100);
  // Operands from shared memory can take longer than the product.
  CHECK(clocks({{.instructions = 1, .wgmma = 25, .wavefronts = 50}}) == 4 * 50);
}

int sum(const WarpWork& work, int Stretch::*count) {
  int n = 0;
  for (const Phase& phase : work.phases)
    for (const Stretch& s : phase.stretches) n += s.*count * phase.times;
  return n;
}

TEST_CASE("the products: multiply-adds, loads and wavefronts as the loops of tile.cuh have them") {
  // Four columns of an 8 × 4 tile: 128 multiply-adds, 12 loads of 16 bytes (4 of K, four wavefronts each; 8 of Q, two),
  // and 7 for addresses and the loop.
  const WarpWork scores = product_transposed_work(8, 4, 64), output = product_work(8, 4, 64);
  for (const WarpWork* work : {&scores, &output}) {
    CHECK(sum(*work, &Stretch::fma) == 16 * 128);
    CHECK(sum(*work, &Stretch::instructions) == 16 * 147);
    CHECK(sum(*work, &Stretch::wavefronts) == 16 * (4 * 4 + 8 * 2));
  }
  // 8 × 2 of head_dim 128, 8 × 8 of its output, 4 × 2 and 4 × 16 of head_dim 256, 8 × 2 of the output at head_dim 32.
  CHECK(sum(product_transposed_work(8, 2, 4), &Stretch::instructions) == 81);
  CHECK(sum(product_work(8, 8, 4), &Stretch::instructions) == 279);
  CHECK(sum(product_transposed_work(4, 2, 4), &Stretch::instructions) == 45);
  CHECK(sum(product_work(4, 16, 4), &Stretch::instructions) == 283);
  CHECK(sum(product_work(8, 2, 4), &Stretch::instructions) == 83);
}

TEST_CASE("a tile that does not fill its place is computed whole, and the rest is zeroed") {
  AttentionProblem p;
  p.head_dim = 80;
  p.seqlen_q = p.seqlen_k = 128;
  const auto narrow = make_schedule("flash_v2", p);
  p.head_dim = 128;
  const auto full = make_schedule("flash_v2", p);
  TileOp sum_op;
  sum_op.op = Op::weighted_sum;
  CHECK(sum(narrow->warp_work(0, sum_op), &Stretch::fma) == sum(full->warp_work(0, sum_op), &Stretch::fma));
  TileOp load;
  load.op = Op::load;
  load.tensor = Tensor::K;
  load.rows = 32;
  load.cols = 80;
  const int some = sum(narrow->warp_work(0, load), &Stretch::instructions);
  load.cols = 128;
  CHECK(some > sum(full->warp_work(0, load), &Stretch::instructions));
  CHECK(sum(zero_rest_work({32, 128, 4, 4, 128}, 32, 128), &Stretch::instructions) == 0);
}

TEST_CASE("every algorithm gives work for each of its operations, without negative counts") {
  class Check final : public OpSink {
   public:
    Check(const Schedule& schedule, int kernel) : m_schedule(schedule), m_kernel(kernel) {}
    void op(const TileOp& op) override {
      const WarpWork work = m_schedule.warp_work(m_kernel, op);
      CHECK(work.round_trips >= 0);
      for (int Stretch::*count : {&Stretch::instructions, &Stretch::clocks, &Stretch::fma, &Stretch::alu,
                                  &Stretch::mufu, &Stretch::bank_reads, &Stretch::wavefronts, &Stretch::waits})
        CHECK(sum(work, count) >= 0);
      if (op.op == Op::scores || op.op == Op::weighted_sum)
        CHECK(sum(work, &Stretch::fma) + sum(work, &Stretch::mma) + sum(work, &Stretch::wgmma) > 0);
    }

   private:
    const Schedule& m_schedule;
    int m_kernel;
  };
  for (const Algorithm& algorithm : algorithms())
    for (DType dtype : {DType::fp32, DType::bf16}) {
      AttentionProblem p;
      p.seqlen_q = 70;
      p.seqlen_k = 99;
      p.head_dim = 40;
      p.window_right = 0;
      p.dtype = dtype;
      const auto schedule = make_schedule(algorithm.name, p);
      for (int kernel = 0; kernel < static_cast<int>(schedule->kernels().size()); ++kernel) {
        Check check(*schedule, kernel);
        schedule->walk(kernel, 0, check);
      }
    }
}

}  // namespace
}  // namespace flashscope
