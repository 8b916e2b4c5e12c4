// Laws of every rung: right on random problems, the same in every run, does what its schedule says, spills nothing.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <tuple>

#include "gpu_support.h"
#include "kernels/common/facts.h"
#include "sim/schedule/tensor_rungs.h"
#include "tests/support/logged_problems.h"
#include "tests/support/paths.h"
#include "tests/support/random_problem.h"

namespace flashscope::kernels {
namespace {

AttentionProblem random_gpu_problem(std::mt19937& random) {
  AttentionProblem p;
  p.batch = pick(random, {1, 1, 2, 3});
  p.kv_heads = pick(random, {1, 1, 2, 3});
  p.heads = p.kv_heads * pick(random, {1, 2, 4});
  p.seqlen_q = pick(random, {1, 7, 31, 32, 33, 63, 64, 65, 100, 129, 257});
  p.seqlen_k = pick(random, {1, 7, 31, 32, 33, 63, 64, 65, 100, 129, 257, 333});
  p.head_dim = pick(random, {1, 2, 7, 8, 20, 24, 32, 40, 64, 72, 80, 96, 100, 128, 200, 256});
  p.dtype = static_cast<DType>(pick(random, {1, 2, 3}));
  switch (pick(random, {0, 1, 2})) {
    case 1: p.causal = true; break;
    case 2:
      p.window_left = pick(random, {-1, 0, 3, 40});
      p.window_right = pick(random, {-1, 0, 5, 64, INT32_MAX});
      break;
  }
  if (random() % 8 == 0) p.softmax_scale = random() % 2 ? -0.3 : 1;
  return p;
}

/// True, and said in the output, where this GPU cannot run it.
bool skipped(const Schedule& schedule) {
  const std::string why = device().why_unsupported(schedule);
  if (!why.empty()) MESSAGE("skipped: ", why);
  return !why.empty();
}

TEST_CASE("every rung is right on 200 random problems") {
  const Rounds rounds(200);
  for (int round = rounds.begin(); round < rounds.end(); ++round) {
    INFO(rounds.repeat(round, "every rung is right on 200"));
    std::mt19937 random = rounds.generator(round);
    const AttentionProblem p = random_gpu_problem(random);
    const AttentionInputs inputs = seeded_inputs(p, static_cast<std::uint32_t>(random()));
    Judge judge(p, inputs);
    for (const std::string& rung : rungs(p)) judge.check(rung);
  }
}

/// Packed sequences, blocks, or both, over more tiles than a lane each, now and then, and with masks inside most of them.
AttentionProblem random_sparse_problem(std::mt19937& random) {
  AttentionProblem p = random_gpu_problem(random);
  while (!p.is_sparse()) add_sparsity(p, random);
  while (p.num_heads() * p.seqlen_q < 64) p.heads *= 2, p.kv_heads *= 2;  // rows enough for E to be a measure (tolerance.h)
  return p;
}

TEST_CASE("packed sequences and block masks: the rungs that take them are right on 300 random problems") {
  const Rounds rounds(300);
  for (int round = rounds.begin(); round < rounds.end(); ++round) {
    INFO(rounds.repeat(round, "packed sequences and block masks: the rungs"));
    std::mt19937 random = rounds.generator(round);
    const AttentionProblem p = random_sparse_problem(random);
    const AttentionInputs inputs = seeded_inputs(p, static_cast<std::uint32_t>(random()));
    Judge judge(p, inputs);
    for (const std::string& rung : rungs(p)) judge.check(rung);
  }
}

TEST_CASE("packed sequences and block masks over more key tiles than a warp has lanes") {
  const Rounds rounds(12);
  for (int round = rounds.begin(); round < rounds.end(); ++round) {
    INFO(rounds.repeat(round, "packed sequences and block masks over more"));
    std::mt19937 random = rounds.generator(round);
    AttentionProblem p;
    p.heads = p.kv_heads = 1;
    p.seqlen_q = 150;
    p.seqlen_k = 3000 + static_cast<int>(random() % 2000);
    p.head_dim = pick(random, {24, 64, 100, 200});
    p.dtype = static_cast<DType>(pick(random, {1, 2, 3}));
    if (round % 2) p.window_right = static_cast<int>(random() % 3000);
    const int block = pick(random, {16, 64, 128, 200});
    if (round % 3 != 1)
      p.block_mask.mask = std::make_shared<const BlockMask>(
          make_block_mask(BlockPattern::random, 0.05, random() % 100, block, p.seqlen_q, p.seqlen_k));
    if (round % 3 != 0) {
      p.cu_seqlens_q = random_offsets(p.seqlen_q, 3, random);
      p.cu_seqlens_k = random_offsets(p.seqlen_k, 3, random);
    }
    const AttentionInputs inputs = seeded_inputs(p, static_cast<std::uint32_t>(random()));
    Judge judge(p, inputs);
    for (const std::string& rung : rungs(p)) judge.check(rung);
  }
}

TEST_CASE("block masks over more tiles than a CTA looks up at once") {
  const int many = kTilesAhead * 64 + 4000;  // key tiles of 64 at 64 columns, and query tiles of flash_v1 and of dK, dV
  for (const auto& [seqlen_q, seqlen_k, pass] :
       {std::tuple{70, many, Pass::forward}, {many, 70, Pass::forward}, {many, 70, Pass::backward}})
    for (DType dtype : {DType::fp32, DType::bf16}) {
      AttentionProblem p;
      p.heads = p.kv_heads = 1;
      p.seqlen_q = seqlen_q;
      p.seqlen_k = seqlen_k;
      p.dtype = dtype;
      p.pass = pass;
      const std::uint32_t seed = fresh_seed();
      INFO("FLASHSCOPE_SEED=", seed, " test_gpu -tc=\"block masks over more tiles*\"");
      p.block_mask.mask = std::make_shared<const BlockMask>(
          make_block_mask(BlockPattern::random, 0.02, seed % 100, 100, seqlen_q, seqlen_k));
      const AttentionInputs inputs = seeded_inputs(p, seed);
      Judge judge(p, inputs);
      for (const std::string& rung : pass == Pass::forward ? rungs(p) : backward_rungs(p))
        if (rung.rfind("flash", 0) == 0) judge.check(rung);
    }
}

TEST_CASE("packed sequences are computed like each sequence by itself, to the bit where tiles fall alike") {
  for (const auto& [dtype, head_dim] : {std::pair{DType::fp32, 64}, {DType::bf16, 64}, {DType::bf16, 128}}) {
    AttentionProblem packed;
    packed.heads = 2;
    packed.kv_heads = 1;
    packed.seqlen_q = packed.seqlen_k = 256 + 384 + 128;  // tiles of every rung divide them
    packed.cu_seqlens_q = packed.cu_seqlens_k = {0, 256, 256, 640, 768};
    packed.head_dim = head_dim;
    packed.dtype = dtype;
    packed.causal = true;
    const AttentionInputs inputs = seeded_inputs(packed, 5);
    for (const std::string& rung : rungs(packed)) {
      CAPTURE(rung);
      if (rung == "three_pass" || 256 % make_schedule(rung, packed)->tile().bc != 0) continue;  // adds up whole rows
      const AttentionOutputs all = device().run(*make_schedule(rung, packed), inputs);
      for (std::size_t s = 0; s + 1 < packed.cu_seqlens_q.size(); ++s) {
        const Range rows = {packed.cu_seqlens_q[s], packed.cu_seqlens_q[s + 1]};
        if (rows.begin == rows.end) continue;
        AttentionProblem one = packed;
        one.cu_seqlens_q.clear();
        one.cu_seqlens_k.clear();
        one.seqlen_q = one.seqlen_k = rows.end - rows.begin;
        if (make_schedule(rung, one)->tile() != make_schedule(rung, packed)->tile()) continue;  // sums in other parts
        const auto part = [&](const Array& from) {
          Array to(from.heads, rows.end - rows.begin, from.cols);
          for (int head = 0; head < to.heads; ++head)
            for (int row = 0; row < to.rows; ++row)
              for (int col = 0; col < to.cols; ++col) to.at(head, row, col) = from.at(head, rows.begin + row, col);
          return to;
        };
        const AttentionOutputs alone =
            device().run(*make_schedule(rung, one), {part(inputs.q), part(inputs.k), part(inputs.v), {}});
        CHECK(part(all.o).values == alone.o.values);
        CHECK(part(all.lse).values == alone.lse.values);
      }
    }
  }
}

TEST_CASE("flash_v3 in each of its tiles is right, also where CTAs take many query tiles") {
  std::mt19937 random(fresh_seed());
  for (int head_dim : {24, 64, 104, 128, 200, 256})
    for (DType dtype : {DType::fp16, DType::bf16})
      for (int round = 0; round < 6; ++round) {
        AttentionProblem p;
        do {
          p.batch = pick(random, {1, 2});
          p.kv_heads = pick(random, {1, 2});
          p.heads = p.kv_heads * pick(random, {1, 2, 4});
          p.seqlen_q = pick(random, {1, 191, 193, 700, 1500});
          p.seqlen_k = pick(random, {1, 127, 177, 900, 4097});
        } while (std::int64_t{p.num_heads()} * p.seqlen_q * p.seqlen_k * head_dim > 1 << 26);  // the CPU does it too
        if (round == 0) p.batch = 4, p.heads = p.kv_heads = 8, p.seqlen_q = 900, p.seqlen_k = 130;  // 160 tiles of 192
        p.head_dim = head_dim;
        p.dtype = dtype;
        p.causal = round % 3 == 1;
        if (round % 3 == 2) p.window_left = pick(random, {0, 100}), p.window_right = pick(random, {-1, 0, 300});
        const AttentionInputs inputs = seeded_inputs(p, static_cast<std::uint32_t>(random()));
        if (!skipped(*make_schedule("flash_v3", p))) Judge(p, inputs).check("flash_v3");
      }
}

TEST_CASE("flash_v3: ten thousand runs give the same bits") {  // a race between copies and reads would show in some
  // The slots of the ring are filled again and again; with 150 heads there are more query tiles than SMs.
  for (const auto& [head_dim, heads, runs] :
       {std::tuple{64, 4, 4000}, {128, 4, 3000}, {256, 4, 2900}, {64, 150, 100}}) {
    AttentionProblem p;
    p.heads = p.kv_heads = heads;
    p.seqlen_q = 130;
    p.seqlen_k = 700;
    p.head_dim = head_dim;
    p.dtype = DType::bf16;
    const auto schedule = make_schedule("flash_v3", p);
    if (skipped(*schedule)) continue;
    CAPTURE(head_dim);
    CAPTURE(heads);
    CHECK(different_runs(*schedule, seeded_inputs(p, 3), runs) == 0);
  }
}

TEST_CASE("long rows: in the registers of one to eight warps, read twice when longer") {
  for (DType dtype : {DType::fp32, DType::bf16})
    for (int seqlen_k : {1000, 1025, 2049, 3333, 4097, 8192, 8193, 16384, 16385, 20000}) {
      AttentionProblem p;
      p.heads = p.kv_heads = 1;
      p.seqlen_q = 70;
      p.seqlen_k = seqlen_k;
      p.head_dim = 40;
      p.dtype = dtype;
      p.window_right = 5;
      const std::uint32_t seed = fresh_seed();
      INFO("FLASHSCOPE_SEED=", seed, " test_gpu -tc=\"long rows*\"");
      const AttentionInputs inputs = seeded_inputs(p, seed);
      Judge judge(p, inputs);
      for (const std::string& rung : rungs(dtype)) judge.check(rung);
    }
}

TEST_CASE("equal keys: the LSE is their score and the logarithm of their number, however many tiles they fill") {
  // The maximum never moves after the first tile, and every exponential is 1: the sum is exact. A rescale that is not
  // exactly 1 would take its part of the sum once a tile.
  for (DType dtype : {DType::fp32, DType::fp16, DType::bf16}) {
    AttentionProblem p;
    p.heads = p.kv_heads = 1;
    p.seqlen_q = 70;
    p.seqlen_k = 20000;
    p.dtype = dtype;
    AttentionInputs inputs = seeded_inputs(p, 17);
    for (int key = 1; key < p.seqlen_k; ++key)
      for (int col = 0; col < p.head_dim; ++col) inputs.k.at(0, key, col) = inputs.k.at(0, 0, col);
    const AttentionOutputs reference = reference_attention(p, inputs);
    for (const std::string& rung : rungs(p)) {
      if (rung.rfind("three_pass", 0) == 0) continue;  // they round scores to the storage dtype
      CAPTURE(rung);
      const AttentionOutputs outputs = device().run(*make_schedule(rung, p), inputs);
      for (int row = 0; row < p.seqlen_q; ++row) {
        CAPTURE(row);
        CHECK(std::fabs(outputs.lse.at(0, row, 0) - reference.lse.at(0, row, 0)) <= 8e-6);
      }
    }
  }
}

TEST_CASE("the LSE of tens of thousands of keys") {
  struct Case {
    const char* rung;
    int heads, seqlen, head_dim;
  };
  for (const Case& c : {Case{"flash_v2_tensor", 5, 64960, 64}, Case{"flash_v3", 2, 35456, 192}}) {
    AttentionProblem p;
    p.heads = p.kv_heads = c.heads;
    p.seqlen_q = p.seqlen_k = c.seqlen;
    p.head_dim = c.head_dim;
    p.dtype = DType::fp16;
    const auto schedule = make_schedule(c.rung, p);
    if (skipped(*schedule)) continue;
    CAPTURE(c.rung);
    MeasureOptions options;
    options.counters = false;
    CHECK(device().measure(*schedule, options).lse.tolerance_used <= 1);  // throws where a check fails
  }
}

TEST_CASE("a hundred runs give the same bits") {
  for (const auto& [dtype, is_sparse] :
       {std::pair{DType::fp32, false}, {DType::bf16, false}, {DType::fp32, true}, {DType::bf16, true}}) {
    AttentionProblem p;
    p.heads = 4;
    p.kv_heads = 2;
    p.seqlen_q = p.seqlen_k = 500;
    p.causal = true;
    p.dtype = dtype;
    if (is_sparse) {
      p.block_mask.mask =
          std::make_shared<const BlockMask>(make_block_mask(BlockPattern::random, 0.3, 1, 40, p.seqlen_q, p.seqlen_k));
      p.cu_seqlens_q = p.cu_seqlens_k = {0, 130, 130, 400, 500};
    }
    const AttentionInputs inputs = seeded_inputs(p, 11);
    for (const std::string& rung : rungs(p)) {
      CAPTURE(rung);
      CHECK(different_runs(*make_schedule(rung, p, kLoggedTile), inputs, 99) == 0);
    }
  }
}

TEST_CASE("a kernel's log is its schedule, operation by operation") {
  std::mt19937 random(fresh_seed());
  for (int round = 0; round < 60; ++round) {
    AttentionProblem p = random_gpu_problem(random);
    p.head_dim = pick(random, {33, 40, 48, 57, 64});
    p.dtype = round % 2 ? DType::fp32 : DType::bf16;
    if (round == 0) p.seqlen_k = 0;
    if (p.seqlen_k > kMmaFewKeys) p.seqlen_k = kMmaFewKeys;  // the tile for more has no registers left for a log
    if (round >= 30) add_sparsity(p, random);
    const AttentionInputs inputs = seeded_inputs(p, 1);
    for (const std::string& rung : rungs(p)) {
      const auto schedule = make_schedule(rung, p, kLoggedTile);
      const std::vector<LoggedOp> expected = expected_log(*schedule), log = device().log(*schedule, inputs);
      INFO(rung, ": ", text_of(p));
      check_log(expected, log);
    }
  }
}

// FLASHSCOPE_WRITE_LOGS=FILE writes the logs that tests/data/kernel_logs.txt keeps.
TEST_CASE("the logs kept for machines without a GPU are what the kernels do") {
  std::string text;
  const std::vector<AttentionProblem> problems = logged_problems();
  for (std::size_t n = 0; n < problems.size(); ++n)
    for (const std::string& rung : rungs(problems[n])) {
      const auto schedule = make_schedule(rung, problems[n], kLoggedTile);
      text += log_text(rung, n, device().log(*schedule, seeded_inputs(problems[n], 1)));
    }
  if (const char* path = std::getenv("FLASHSCOPE_WRITE_LOGS")) std::ofstream(path) << text;
  std::ifstream file(test_data("kernel_logs.txt"));
  std::stringstream kept;
  kept << file.rdbuf();
  CHECK(kept.str() == text);
}

/// CTAs an SM holds, from what the schedule says and the device's limits.
int expected_ctas_per_sm(const CtaResources& cta) {
  const auto attribute = [](cudaDeviceAttr which) {
    int value = 0, current = 0;
    REQUIRE(cudaGetDevice(&current) == cudaSuccess);
    REQUIRE(cudaDeviceGetAttribute(&value, which, current) == cudaSuccess);
    return value;
  };
  const int warps = cta.threads / kWarpSize;
  const int registers = (cta.registers_per_thread * kWarpSize + 255) / 256 * 256 * warps;  // allocated 256 at a time
  const std::int64_t smem = cta.smem_bytes + attribute(cudaDevAttrReservedSharedMemoryPerBlock);
  return static_cast<int>(std::min<std::int64_t>({attribute(cudaDevAttrMaxRegistersPerMultiprocessor) / registers,
                                                  attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor) / smem,
                                                  attribute(cudaDevAttrMaxThreadsPerMultiProcessor) / cta.threads,
                                                  attribute(cudaDevAttrMaxBlocksPerMultiprocessor)}));
}

TEST_CASE("no rung spills a register, and the occupancy is the one the schedule implies") {
  for (DType dtype : {DType::fp32, DType::fp16, DType::bf16}) {
    for (int head_dim : {32, 64, 128, 256}) {
      AttentionProblem forward, backward;
      forward.dtype = backward.dtype = dtype;
      forward.head_dim = backward.head_dim = head_dim;
      backward.pass = Pass::backward;
      std::vector<std::pair<std::string, AttentionProblem>> all;
      for (bool is_sparse : {false, true}) {  // those are instances of their own
        if (is_sparse) forward.cu_seqlens_q = forward.cu_seqlens_k = {0, forward.seqlen_q};
        if (is_sparse) backward.cu_seqlens_q = backward.cu_seqlens_k = forward.cu_seqlens_q;
        for (const std::string& rung : rungs(forward)) all.emplace_back(rung, forward);
        for (const std::string& rung : backward_rungs(backward)) all.emplace_back(rung, backward);
      }
      std::vector<std::unique_ptr<Schedule>> schedules;
      for (const auto& [rung, p] : all) schedules.push_back(make_schedule(rung, p));
      schedules.push_back(make_schedule("split_kv", AttentionProblem{all.front().second}, {0, 0, 0, false, 1, false, 64}));
      for (const auto& schedule : schedules) {
        if (skipped(*schedule)) continue;
        for (int k = 0; k < static_cast<int>(schedule->kernels().size()); ++k) {
          const KernelLaunch& kernel = schedule->kernels()[static_cast<std::size_t>(k)];
          const KernelFacts facts = kernel_facts(*schedule, k);
          CAPTURE(kernel.name);
          CAPTURE(text_of(schedule->problem()));
          CHECK(facts.local_bytes_per_thread == 0);
          CHECK(facts.registers_per_thread <= kernel.resources.registers_per_thread);
          CHECK(facts.ctas_per_sm == expected_ctas_per_sm(kernel.resources));
        }
      }
    }
  }
}

}  // namespace
}  // namespace flashscope::kernels
