// Laws of counting: what the operations add up to is what the formula says, exactly, whatever the shape.
#include <doctest/doctest.h>

#include <random>
#include <string>

#include "sim/count/count.h"
#include "sim/error.h"
#include "sim/schedule/algorithms.h"
#include "sim/schedule/memory.h"
#include "tests/support/random_problem.h"
#include "tests/support/rounds.h"

namespace flashscope {
namespace {

AttentionProblem paper_problem() {
  AttentionProblem p;
  p.heads = p.kv_heads = 1;
  p.seqlen_q = p.seqlen_k = 1024;
  p.head_dim = 64;
  p.dtype = DType::fp16;
  return p;
}

std::int64_t paper_bytes(const char* algorithm, const AttentionProblem& p, TileShape tile) {
  return make_schedule(algorithm, p, tile)->closed_form().paper_bytes;
}

TEST_CASE("paper's count of the reference problem") {
  AttentionProblem p = paper_problem();
  const TileShape tile{64, 64, 1};
  CHECK(paper_bytes("three_pass", p, tile) == 8'912'896);
  CHECK(paper_bytes("flash_v2", p, tile) == 4'456'448);
  CHECK(paper_bytes("flash_v1", p, tile) == 6'815'744);
  p.causal = true;
  CHECK(paper_bytes("flash_v2", p, tile) == 2'490'368);
  p = paper_problem();
  p.seqlen_q = p.seqlen_k = 33;
  CHECK(paper_bytes("flash_v2", p, {32, 32, 1}) == 25'344);
}

TEST_CASE("CTAs that stand for others count what all of them count, walked one by one and tile by tile") {
  struct Sum final : OpSink {
    Sum(const Schedule& of, KernelCount& sum) : schedule(of), into(sum) {}
    void op(const TileOp& op) override { add_op(schedule, op, 1, into); }
    const Schedule& schedule;
    KernelCount& into;
  };
  std::mt19937 random(20261202);
  for (int round = 0; round < rounds(120); ++round) {
    AttentionProblem p;
    p.kv_heads = 1;
    p.heads = pick(random, {1, 3});
    p.seqlen_q = pick(random, {64, 257, 1000, 1024, 2056});
    p.seqlen_k = pick(random, {64, 300, 1000, 1024, 2001});
    p.head_dim = pick(random, {16, 40, 64});
    p.causal = random() % 2 == 0;
    if (random() % 2 == 0) p.window_left = pick(random, {0, 31, 64, 500});
    if (!p.causal && random() % 2 == 0) p.window_right = pick(random, {0, 31, 100});
    p.pass = random() % 3 == 0 ? Pass::backward : Pass::forward;
    const auto& list = algorithms(p.pass);
    const std::string name = list[random() % list.size()].name;
    if (name == "three_pass_naive") continue;
    const TileShape tile = random() % 3 ? TileShape{0, 0, 0} : TileShape{pick(random, {16, 32, 48, 64}), pick(random, {16, 32, 48, 80}), 0};
    const auto schedule = make_schedule(name, p, tile);
    KernelCount all;
    Sum sum(*schedule, all);
    for (int k = 0; k < static_cast<int>(schedule->kernels().size()); ++k)
      for (std::int64_t cta = 0; cta < schedule->kernels()[static_cast<std::size_t>(k)].ctas(); ++cta)
        schedule->walk(k, cta, sum);
    const KernelCount counted = count(*schedule).total;
    CAPTURE(name);
    CAPTURE(p.seqlen_q);
    CAPTURE(p.seqlen_k);
    CAPTURE(p.window_left);
    CAPTURE(p.window_right);
    CAPTURE(p.causal);
    CHECK(counted.sm == all.sm);
    CHECK(counted.tensors == all.tensors);
    CHECK(counted.flops == all.flops);
    CHECK(counted.flops_executed == all.flops_executed);
    CHECK(counted.exps == all.exps);
    CHECK(counted.ops == all.ops);
  }
}

TEST_CASE("counts of flash_v2 on the reference problem") {
  const auto schedule = make_schedule("flash_v2", paper_problem(), {64, 64, 1});
  const KernelCount total = count(*schedule).total;
  CHECK(total.sm == SmTraffic{4'325'376, 135'168, 4'325'376, 135'168});
  CHECK(total.flops == 268'435'456);
  CHECK(total.flops_executed == 268'435'456);
  CHECK(total.exps == 1'064'960);
  CHECK(schedule->peak_memory_bytes() == 528'384);
  CHECK(compulsory_bytes(paper_problem()) == 524'288);
  CHECK(compulsory_read_bytes(paper_problem()) == 393'216);  // Q, K, V
}

TEST_CASE("the backward pass on the reference problem: paper's count, FLOPs and exponentials") {
  AttentionProblem p = paper_problem();
  p.pass = Pass::backward;
  const TileShape tile{64, 64, 1};
  constexpr std::int64_t nd = 131'072, n2 = 2'097'152, statistic = 4'096;  // bytes of one tensor
  CHECK(paper_bytes("three_pass", p, tile) == 8 * nd + 7 * n2);
  for (const char* name : {"flash_v1", "flash_v2"})
    CHECK(paper_bytes(name, p, tile) == 2 * nd + 16 * (4 * nd + 2 * statistic) + 16 * nd + 2 * nd);
  CHECK(attention_flops(p) == 671'088'640);  // 2.5 × forward
  const auto total = [&](const char* name) { return count(*make_schedule(name, p, tile)).total; };
  constexpr std::int64_t product = 134'217'728, pairs = 1'048'576;
  CHECK(total("three_pass").flops_executed == 4 * product);  // P was stored
  CHECK(total("flash_v1").flops_executed == 5 * product);    // S recomputed
  CHECK(total("flash_v2").flops_executed == 7 * product);    // S and dP once more for dQ
  CHECK(total("three_pass").exps == 0);
  CHECK(total("flash_v1").exps == pairs);
  CHECK(total("flash_v2").exps == 2 * pairs);
  for (const Algorithm& algorithm : algorithms(Pass::backward)) CHECK(total(algorithm.name.c_str()).flops == 5 * product);
  CHECK(compulsory_bytes(p) == 7 * nd);  // Q, K, V, dO; dQ, dK, dV
  CHECK(compulsory_read_bytes(p) == 4 * nd);
  CHECK(make_schedule("three_pass", p, tile)->peak_memory_bytes() == 7 * nd + 3 * n2);
  CHECK(make_schedule("flash_v2", p, tile)->peak_memory_bytes() == 8 * nd + 2 * statistic);
}

TEST_CASE("E05: 512 GiB for S: counted in no time, and the largest sequence that fits is named") {
  AttentionProblem p;
  p.batch = 4;
  p.heads = p.kv_heads = 32;
  p.seqlen_q = p.seqlen_k = 32768;
  p.dtype = DType::fp32;
  constexpr std::int64_t s = 549'755'813'888, memory = 141'000'000'000;
  for (Pass pass : {Pass::forward, Pass::backward}) {
    p.pass = pass;
    const auto schedule = make_schedule("three_pass", p);
    CHECK(schedule->peak_memory_bytes() > (pass == Pass::forward ? 2 : 3) * s);
    const KernelCount total = count(*schedule).total;
    CHECK(total.sm.read == schedule->closed_form().sm_read_bytes);
    p.seqlen_q = p.seqlen_k = largest_seqlen(*schedule, memory);
    CHECK(make_schedule("three_pass", p)->peak_memory_bytes() <= memory);
    ++p.seqlen_q, ++p.seqlen_k;
    CHECK(make_schedule("three_pass", p)->peak_memory_bytes() > memory);
    p.seqlen_q = p.seqlen_k = 32768;
    CHECK(largest_seqlen(*make_schedule("flash_v2", p), memory) > 300'000);
  }
}

TEST_CASE("a name without a backward pass is refused with those that have one") {
  AttentionProblem p = paper_problem();
  p.pass = Pass::backward;
  try {
    make_schedule("three_pass_naive", p);
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::usage);
    CHECK(std::string(error.what()).find("three_pass, flash_v1, flash_v2") != std::string::npos);
  }
}

TEST_CASE("counted bytes equal the closed form on random problems, and FLOPs of kept pairs equal theirs") {
  std::mt19937 random(20261129);
  for (int round = 0; round < rounds(400); ++round) {
    AttentionProblem p = random_problem(random);
    p.pass = round % 2 == 0 ? Pass::forward : Pass::backward;
    TileShape tile = random_tile(p, random);
    for (const Algorithm& algorithm : algorithms(p.pass)) {
      tile.whole_tiles = p.pass == Pass::forward && algorithm.name.rfind("flash_v2", 0) == 0 && random() % 2 == 0;
      const auto schedule = make_schedule(algorithm.name, p, tile);
      const KernelCount total = count(*schedule).total;
      const ClosedForm closed = schedule->closed_form();
      CAPTURE(algorithm.name);
      CAPTURE(round);
      CAPTURE(tile.whole_tiles);
      CHECK(total.sm.read == closed.sm_read_bytes);
      CHECK(total.sm.write == closed.sm_write_bytes);
      CHECK(total.flops == attention_flops(p));
      const bool stores_p = p.pass == Pass::backward && algorithm.name == "three_pass";  // four products, not five
      if (!stores_p) CHECK(total.flops_executed >= total.flops);
      if (algorithm.name == "flash_v2" && p.pass == Pass::forward && !tile.whole_tiles)
        CHECK(closed.paper_bytes + 4 * p.seqlen_q * p.num_heads() == total.sm.read + total.sm.write);
    }
  }
}

TEST_CASE("a cache in pages: each key tile reads the entries of its pages, K and V cost what they cost in one piece") {
  AttentionProblem p;
  p.batch = p.kv_heads = 2;
  p.heads = 4;
  p.seqlen_q = 1;
  p.seqlen_k = 130;
  const auto with = [&](int bc, int page_size) {
    return make_schedule("split_kv", p, {1, bc, 1, false, 2, false, page_size});
  };
  // Tiles of 64 keys: 2 + 2 + 1 pages of 32; of 24 keys: 1 + 2 + 2 + 1 + 1 + 2; for each of 2 · 2 KV heads, 4 bytes each.
  const auto table = static_cast<std::size_t>(Tensor::block_table);
  for (const auto& [bc, entries] : {std::pair{64, 5}, {24, 9}}) {
    const auto paged = with(bc, 32), whole = with(bc, 0);
    const KernelCount a = count(*paged).total, b = count(*whole).total;
    CHECK(a.tensors[table].read == 4 * 4 * entries);
    for (Tensor tensor : {Tensor::K, Tensor::V, Tensor::O_split}) {
      const auto t = static_cast<std::size_t>(tensor);
      CHECK(a.tensors[t] == b.tensors[t]);
    }
    CHECK(a.sm.read == b.sm.read + 4 * 4 * entries);
  }
  // Whole pages are kept: 5 of 32 rows a sequence; and the entries of each sequence, in whole sectors.
  CHECK(with(64, 32)->peak_memory_bytes() - with(64, 0)->peak_memory_bytes() == 2 * 4 * 30 * 64 * 2 + 2 * 32);
}

/// The same count without any collapsing of like tiles, CTAs or heads.
class PlainSink final : public OpSink {
 public:
  PlainSink(const Schedule& schedule, KernelCount& into) : m_schedule(schedule), m_into(into) {}
  void op(const TileOp& op) override { add_op(m_schedule, op, 1, m_into); }

 private:
  const Schedule& m_schedule;
  KernelCount& m_into;
};

TEST_CASE("a long count tells how far it is, can be stopped inside of one CTA, and is the same for being asked") {
  AttentionProblem p = paper_problem();
  p.seqlen_q = p.seqlen_k = 1000;
  const TileShape small{4, 3, 1};
  for (const char* algorithm : {"flash_v1", "flash_v2", "three_pass"}) {
    CAPTURE(algorithm);
    const auto schedule = make_schedule(algorithm, p, small);
    int asked = 0;
    double last = 0;
    const Count watched = count(*schedule, [&](double share) {
      ++asked;
      CHECK(share >= last);
      CHECK(share <= 1);
      last = share;
      return true;
    });
    const Count plain = count(*schedule);
    CHECK(watched.total.sm == plain.total.sm);
    CHECK(watched.total.ops == plain.total.ops);
    CHECK(watched.total.exps == plain.total.exps);
    CHECK(watched.total.flops == plain.total.flops);
    if (std::string(algorithm) == "flash_v1") {  // one CTA, which no folding shortens
      CHECK(asked > 10);
      asked = 0;
      CHECK_THROWS_AS(count(*schedule, [&](double) { return ++asked < 3; }), Error);
      CHECK(asked == 3);
    }
  }
}

TEST_CASE("collapsing like tiles changes nothing") {
  std::mt19937 random(7);
  for (int round = 0; round < rounds(150); ++round) {
    AttentionProblem p = random_problem(random);
    p.pass = round % 2 == 0 ? Pass::forward : Pass::backward;
    const TileShape tile = random_tile(p, random);
    for (const Algorithm& algorithm : algorithms(p.pass)) {
      const auto schedule = make_schedule(algorithm.name, p, tile);
      const Count collapsed = count(*schedule);
      for (int k = 0; k < static_cast<int>(schedule->kernels().size()); ++k) {
        KernelCount plain;
        PlainSink sink(*schedule, plain);
        for (std::int64_t cta = 0; cta < schedule->kernels()[k].ctas(); ++cta) schedule->walk(k, cta, sink);
        CAPTURE(algorithm.name);
        CHECK(plain.sm == collapsed.kernels[k].sm);
        CHECK(plain.tensors == collapsed.kernels[k].tensors);
        CHECK(plain.flops == collapsed.kernels[k].flops);
        CHECK(plain.flops_executed == collapsed.kernels[k].flops_executed);
        CHECK(plain.exps == collapsed.kernels[k].exps);
        CHECK(plain.ops == collapsed.kernels[k].ops);
      }
    }
  }
}

TEST_CASE("sector traffic is at least the bytes asked for") {
  std::mt19937 random(11);
  for (int round = 0; round < rounds(100); ++round) {
    const AttentionProblem p = random_problem(random);
    for (const char* name : {"three_pass", "flash_v1", "flash_v2"}) {
      const KernelCount total = count(*make_schedule(name, p, {16, 32, 1})).total;
      CHECK(total.sm.sector_read >= total.sm.read);
      CHECK(total.sm.sector_write >= total.sm.write);
    }
  }
}

std::int64_t sector_reads(const char* algorithm, int seqlen, int head_dim) {
  AttentionProblem p;
  p.heads = p.kv_heads = 1;
  p.seqlen_q = p.seqlen_k = seqlen;
  p.head_dim = head_dim;
  p.dtype = DType::fp16;
  return count(*make_schedule(algorithm, p, {128, 128, 2})).total.sm.sector_read;
}

TEST_CASE("cp.async: rows that start inside a sector move it in halves, as counters on an H200 say") {
  constexpr int kRows = 3 * 128;  // of Q, K and V
  CHECK(sector_reads("flash_v2_tensor", 128, 64) == kRows * 128);
  CHECK(sector_reads("flash_v2_tensor", 128, 48) == kRows * 96);
  CHECK(sector_reads("flash_v2_tensor", 128, 40) == kRows / 2 * (3 + 5) * 32);  // of 80 bytes: five pieces of 16
  CHECK(sector_reads("flash_v2_tensor", 128, 72) == kRows / 2 * (5 + 9) * 32);
  CHECK(sector_reads("flash_v2_tensor", 128, 36) == kRows * 72);  // by elements, through registers
}

TEST_CASE("TMA: boxes count whole, beyond the tensor too, and pieces of 64 bytes that start inside a sector one more") {
  constexpr int kRows = 3 * 128;
  for (int seqlen : {128, 100, 1}) CHECK(sector_reads("flash_v3", seqlen, 64) == kRows * 128);
  CHECK(sector_reads("flash_v3", 128, 80) == kRows * 256);
  CHECK(sector_reads("flash_v3", 128, 40) == kRows / 2 * (4 + 6) * 32);
  CHECK(sector_reads("flash_v3", 128, 72) == kRows / 2 * (8 + 11) * 32);
  CHECK(sector_reads("flash_v3", 100, 40) == kRows * 128 + 300 / 2 * 2 * 32);
}

}  // namespace
}  // namespace flashscope
