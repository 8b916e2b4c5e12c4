// The backward kernels: gradients known by hand, every element on random problems, equal bits in every run, and a log
// that is the schedule.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <thread>

#include "gpu_support.h"
#include "kernels/common/encode.h"
#include "kernels/common/workspace.h"
#include "kernels/measure/cuda_check.h"
#include "kernels/measure/reference.h"
#include "poison.h"
#include "sim/compute/reordered.h"
#include "sim/error.h"
#include "sim/schedule/tensor_backward.h"
#include "tests/sim/attention_cases.h"
#include "tests/support/random_problem.h"

namespace flashscope::kernels {
namespace {

AttentionProblem one_head_backward(int seqlen_q, int seqlen_k, int head_dim, DType dtype = DType::fp32) {
  AttentionProblem p = one_head(seqlen_q, seqlen_k, head_dim, dtype);
  p.pass = Pass::backward;
  return p;
}

AttentionOutputs run(const std::string& rung, const AttentionProblem& p, const AttentionInputs& inputs) {
  return device().run(*make_schedule(rung, p), inputs);
}

void check_values(const char* name, const Array& found, const std::vector<double>& right, double tolerance) {
  CAPTURE(name);
  REQUIRE(found.values.size() == right.size());
  for (std::size_t n = 0; n < right.size(); ++n) {
    CAPTURE(n);
    CHECK(std::fabs(found.values[n] - right[n]) <= tolerance * std::max(1.0, std::fabs(right[n])));
  }
}

struct Gradients {
  std::vector<double> d_q, d_k, d_v;
};
void check_gradients(const AttentionOutputs& out, const Gradients& right, double tolerance) {
  check_values("dQ", out.d_q, right.d_q, tolerance);
  check_values("dK", out.d_k, right.d_k, tolerance);
  check_values("dV", out.d_v, right.d_v, tolerance);
}

TEST_CASE("N08: rows of dO that differ, a scale, and the row term") {
  for (const auto& [rung, dtype] : backward_rungs()) {
    CAPTURE(rung);
    const double tolerance = within(dtype, 1e-5);
    AttentionProblem p = one_head_backward(2, 2, 1, dtype);
    p.softmax_scale = 0.5;
    const AttentionOutputs out =
        run(rung, p, {filled(1, 2, 1, {1, 2}), filled(1, 2, 1, {1, -1}), filled(1, 2, 1, {1, 3}), {},
                      filled(1, 2, 1, {1, 10})});
    check_values("O", out.o, {1.5378828, 1.2384058}, tolerance);
    check_values("LSE", out.lse, {0.8132617, 1.1269280}, tolerance);
    check_gradients(out, {{-0.3932239, -2.0998717}, {-2.2964836, 2.2964836}, {9.5390294, 1.4609706}}, tolerance);
  }
}

TEST_CASE("N09: query heads add up in the dK and dV that they share") {
  for (const auto& [rung, dtype] : backward_rungs()) {
    CAPTURE(rung);
    const double tolerance = within(dtype, 1e-5);
    AttentionProblem p = one_head_backward(1, 2, 1, dtype);
    p.heads = 2;
    const float ln3 = std::log(3.0f);
    const AttentionOutputs out = run(rung, p, {filled(2, 1, 1, {1, 2}), filled(1, 2, 1, {0, ln3}),
                                               filled(1, 2, 1, {1, 5}), {}, filled(2, 1, 1, {1, 2})});
    check_values("O", out.o, {4.0, 4.6}, tolerance);
    check_gradients(out, {{0.8239592, 0.7910008}, {-2.19, 2.19}, {0.45, 2.55}}, tolerance);

    p = one_head_backward(50, 70, 16, dtype);
    p.heads = 6;  // groups of three, unlike the number of KV heads
    p.kv_heads = 2;
    check_rung(rung, p, seeded_inputs(p, 3));
  }
}

TEST_CASE("S01 and N01: rows that causal leaves without keys have gradients 0, and so have keys that no row sees") {
  for (const auto& [rung, dtype] : backward_rungs()) {
    CAPTURE(rung);
    AttentionProblem p = one_head_backward(3, 1, 1, dtype);
    p.causal = true;
    check_gradients(run(rung, p, {filled(1, 3, 1, {1, 2, 3}), filled(1, 1, 1, {1}), filled(1, 1, 1, {5}), {},
                                  filled(1, 3, 1, {1, 2, 4})}),
                    {{0, 0, 0}, {0}, {4}}, within(dtype, 1e-5));

    p = one_head_backward(200, 70, 40, dtype);  // whole tiles of empty rows
    p.causal = true;
    AttentionInputs inputs = seeded_inputs(p, 5);
    AttentionOutputs out = check_rung(rung, p, inputs);
    for (int row = 0; row < 130; ++row)
      for (int c = 0; c < 40; ++c) CHECK(out.d_q.at(0, row, c) == 0);

    p = one_head_backward(70, 300, 40, dtype);  // and whole tiles of keys that nobody sees
    p.window_left = 3;
    p.window_right = 5;
    inputs = seeded_inputs(p, 5);
    out = check_rung(rung, p, inputs);
    for (int key = 0; key < 220; ++key)
      for (int c = 0; c < 40; ++c) {
        CHECK(out.d_k.at(0, key, c) == 0);
        CHECK(out.d_v.at(0, key, c) == 0);
      }
  }
}

TEST_CASE("N05: nothing past the end of a tile reaches a gradient: NaN around, zeros around, the same bits") {
  for (const auto& [rung, dtype] : backward_rungs()) {
    CAPTURE(rung);
    const double tolerance = within(dtype, 1e-6);
    const AttentionProblem p = one_head_backward(2, 5, 1, dtype);
    const AttentionInputs inputs{Array(1, 2, 1), filled(1, 5, 1, {0.5, -3, 2, 7, 1}), filled(1, 5, 1, {1, 2, 3, 4, 5}),
                                 {}, filled(1, 2, 1, {1, 2})};
    fill_shared_memory_with_nan();
    const AttentionOutputs out = run(rung, p, inputs);  // between NaN guard zones
    check_values("O", out.o, {3, 3}, tolerance);
    check_values("dV", out.d_v, {0.6, 0.6, 0.6, 0.6, 0.6}, tolerance);
    for (const Array* array : {&out.d_q, &out.d_k, &out.d_v})
      for (double x : array->values) CHECK(std::isfinite(x));
    CHECK(equal_bits(out, run(rung, p, inputs)));  // on the shared memory that the first run left
  }
}

TEST_CASE("S05: no keys, no queries, no batch: gradients 0 or nothing") {
  for (const auto& [rung, dtype] : backward_rungs()) {
    CAPTURE(rung);
    AttentionProblem p = one_head_backward(70, 0, 8, dtype);
    CHECK(run(rung, p, seeded_inputs(p, 1)).d_q.values == std::vector<double>(70 * 8, 0.0));
    p = one_head_backward(0, 70, 8, dtype);
    AttentionOutputs out = run(rung, p, seeded_inputs(p, 1));
    CHECK(out.d_q.values.empty());
    CHECK(out.d_k.values == std::vector<double>(70 * 8, 0.0));
    CHECK(out.d_v.values == std::vector<double>(70 * 8, 0.0));
    p = one_head_backward(5, 5, 8, dtype);
    p.batch = 0;
    CHECK(run(rung, p, seeded_inputs(p, 1)).d_k.values.empty());
  }
}

TEST_CASE("S02: lengths off every multiple of the tile, heads kept apart") {
  for (const auto& [rung, dtype] : backward_rungs())
    for (int seqlen : {1, 31, 32, 33, 63, 64, 65, 127, 128, 129})
      for (bool causal : {false, true}) {
        CAPTURE(rung);
        CAPTURE(seqlen);
        CAPTURE(causal);
        AttentionProblem p = one_head_backward(seqlen, seqlen, 1, dtype);
        p.batch = p.heads = p.kv_heads = 2;
        p.causal = causal;
        AttentionInputs inputs{Array(4, seqlen, 1), Array(4, seqlen, 1), Array(4, seqlen, 1), {}, Array(4, seqlen, 1)};
        std::vector<double> d_v;  // Q = 0: row i weighs each of its keys alike, and gives it dO_i / keys
        for (int head = 0; head < 4; ++head)
          for (int key = 0; key < seqlen; ++key) {
            inputs.d_out.at(head, key, 0) = 1 + 100 * head;
            double sum = 0;
            for (int row = causal ? key : 0; row < seqlen; ++row)
              sum += (1 + 100.0 * head) / (causal ? row + 1 : seqlen);
            d_v.push_back(sum);
          }
        check_values("dV", run(rung, p, inputs).d_v, d_v, within(dtype, 1e-5));
      }
}

TEST_CASE("every column of every width, or a refusal that names the widths") {
  for (DType dtype : {DType::fp32, DType::fp16, DType::bf16})
    for (const std::string& rung : backward_rungs(dtype)) {
      const bool is_hopper = rung == "flash_v3";
      const int widest = rung == "flash_v2_tensor" || is_hopper ? kTensorBackwardMaxHeadDim : kFmaMaxHeadDim;
      for (int head_dim : {1, 7, 8, 24, 40, 72, 80, 96, 117, 118, 128, 129, 192, 256, 257, 320}) {
        AttentionProblem p = one_head_backward(75, 70, head_dim, dtype);
        p.softmax_scale = 0;
        const auto schedule = make_schedule(rung, p);
        const AttentionInputs inputs = seeded_inputs(p, static_cast<std::uint32_t>(head_dim));
        if (head_dim > widest) {
          CHECK(device().why_unsupported(*schedule).find("1 … " + std::to_string(widest)) != std::string::npos);
          CHECK_THROWS_AS(device().run(*schedule, inputs), Error);
        } else if (is_hopper && head_dim % 8 != 0) {
          CHECK(device().why_unsupported(*schedule).find("no multiple of 8") != std::string::npos);
        } else {
          check_rung(rung, p, inputs);
        }
      }
    }
}

TEST_CASE("a row that sees a single key has dQ = 0 and gives dK nothing, exactly") {
  for (DType dtype : {DType::fp32, DType::fp16, DType::bf16})
    for (int head_dim : {8, 40, 64, 128})
      for (const std::string& rung : backward_rungs(dtype, head_dim)) {
        CAPTURE(rung);
        CAPTURE(head_dim);
        AttentionProblem p = one_head_backward(150, 150, head_dim, dtype);
        p.window_left = p.window_right = 0;
        const AttentionOutputs out = check_rung(rung, p, seeded_inputs(p, 17));
        CHECK(out.d_q.values == std::vector<double>(out.d_q.values.size(), 0.0));
        CHECK(out.d_k.values == std::vector<double>(out.d_k.values.size(), 0.0));
      }
}

TEST_CASE("scores far below any finite sentinel have gradients like others") {
  for (const auto& [rung, dtype] : backward_rungs()) {
    CAPTURE(rung);
    const AttentionProblem p = one_head_backward(1, 2, 2, dtype);
    const AttentionInputs inputs{filled(1, 1, 2, {1, 1}), filled(1, 2, 2, {-60000, 0, -60000, -1}),
                                 filled(1, 2, 2, {1, 1, 2, 2}), {}, filled(1, 1, 2, {1, 0})};
    const AttentionOutputs out = run(rung, p, inputs);
    // LSE near 60,000 has steps of 1/256 in float32, and so has each logarithm of a probability. (The tensor-core rung
    // takes its LSE to base 2 and back: a few steps.)
    check_values("dV", out.d_v, {0.7310586, 0, 0.2689414, 0}, (dtype == DType::fp32 ? 1.0 : 4.0) / 256);
  }
}

TEST_CASE("N10: a hundred runs of the backward pass give the same bits") {
  for (const auto& [dtype, is_sparse] :
       {std::pair{DType::fp32, false}, {DType::bf16, false}, {DType::fp32, true}, {DType::bf16, true}}) {
    AttentionProblem p;
    p.pass = Pass::backward;
    p.heads = 4;
    p.kv_heads = 2;
    p.seqlen_q = p.seqlen_k = 1024;
    p.causal = true;
    p.dtype = dtype;
    if (is_sparse) {
      p.block_mask.mask =
          std::make_shared<const BlockMask>(make_block_mask(BlockPattern::random, 0.3, 1, 40, p.seqlen_q, p.seqlen_k));
      p.cu_seqlens_q = p.cu_seqlens_k = {0, 130, 130, 700, 1024};
    }
    const AttentionInputs inputs = seeded_inputs(p, 11);
    for (const std::string& rung : backward_rungs(p)) {
      CAPTURE(rung);
      CAPTURE(is_sparse);
      CHECK(different_runs(*make_schedule(rung, p), inputs, 99) == 0);
    }
  }
}

/// GQA, causal, windows, packed sequences, block masks, unequal lengths, empty rows, odd sizes, both passes, caches in
/// pages (the tile), at the sizes of the simulator's own test of this kind; without the masks that no kernel takes, and large enough for E to be a
/// measure (tolerance.h).
AttentionProblem random_kernel_problem(std::mt19937& random) {
  AttentionProblem p = random_small_problem(random);
  p.dense_mask = false;
  p.dtype = random() % 3 == 0 ? DType::fp32 : random() % 2 == 0 ? DType::fp16 : DType::bf16;
  p.pass = random() % 4 == 0 ? Pass::forward : Pass::backward;
  if (random() % 16 == 0) p.head_dim = 33 + static_cast<int>(random() % 96);
  if (random() % 16 == 0) p.head_dim = 129 + static_cast<int>(random() % 128);
  // Errors of a row go together, and the tolerance comes from the largest of them: there must be some rows.
  while (p.num_kv_heads() * std::min(p.seqlen_q, p.seqlen_k) < 64) p.batch *= 2;
  if (random() % 16 == 0) p.seqlen_q = 0;
  if (random() % 16 == 0) p.seqlen_k = 0;
  if (random() % 3 == 0) {
    p.heads *= p.batch, p.kv_heads *= p.batch, p.batch = 1;  // packed sequences are a batch of their own
    add_sparsity(p, random);
  }
  return p;
}

TEST_CASE("two thousand random problems through the kernels: every element of O, LSE, dQ, dK, dV") {
  const Rounds rounds(2000);
  // References are computed by all cores; the GPU takes one problem at a time. Each round has its own generator, so
  // that its problem does not depend on which thread took it.
  std::mutex mutex;
  int next = rounds.begin(), runs = 0;
  std::vector<std::string> failures;
  const auto work = [&] {
    for (;;) {
      int round;
      {
        const std::lock_guard lock(mutex);
        round = next++;
      }
      if (round >= rounds.end()) return;
      std::mt19937 random = rounds.generator(round);
      const AttentionProblem p = random_kernel_problem(random);
      const TileShape tile = {0, 0, 0, false, pick(random, {1, 2, 5}), false, pick(random, {0, 16, 64})};  // of split_kv
      const AttentionInputs inputs = seeded_inputs(p, static_cast<std::uint32_t>(random()));
      Judge judge(p, inputs);
      for (const std::string& rung : p.pass == Pass::forward ? rungs(p) : backward_rungs(p)) {
        const auto schedule = make_schedule(rung, p, tile);
        AttentionOutputs outputs;
        {
          const std::lock_guard lock(mutex);
          outputs = device().run(*schedule, inputs);
          ++runs;
        }
        for (const Judge::Judged& judged : judge.judge(*schedule, outputs)) {
          if (judged.verified.passed) continue;
          const std::lock_guard lock(mutex);
          failures.push_back(rounds.repeat(round, "two thousand random problems") + ": " + rung + ", " + text_of(p) +
                             ": " + judged.failure);
        }
      }
    }
  };
  device();
  std::vector<std::thread> threads;
  for (unsigned n = 0; n < std::max(1u, std::thread::hardware_concurrency()); ++n) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  for (const std::string& failure : failures) FAIL_CHECK(failure);
  CHECK(runs >= rounds.end() - rounds.begin());
  MESSAGE(runs, " runs of kernels");
}

TEST_CASE("a backward kernel's log is its schedule, operation by operation") {
  const std::uint32_t seed = fresh_seed();
  MESSAGE("FLASHSCOPE_SEED=", seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 40; ++round) {
    AttentionProblem p = random_small_problem(random);
    p.dense_mask = false;
    p.pass = Pass::backward;
    p.seqlen_q *= 1 + static_cast<int>(random() % 4);  // up to five tiles each way
    p.seqlen_k *= 1 + static_cast<int>(random() % 4);
    p.head_dim = 33 + static_cast<int>(random() % 32);
    p.dtype = round % 2 ? DType::fp32 : DType::bf16;
    if (round == 0) p.seqlen_k = 0;
    if (round == 1) p.seqlen_q = 0;
    if (round >= 20) add_sparsity(p, random);
    for (const std::string& rung : backward_rungs(p)) {
      const auto schedule = make_schedule(rung, p);
      INFO(rung, ": ", text_of(p));
      check_log(expected_log(*schedule), device().log(*schedule, seeded_inputs(p, 1)));
    }
  }
}

/// flash_v3 takes rows of whole 16 bytes; sizes around its tiles of 64 or 128 queries and 128 keys.
AttentionProblem random_hopper_problem(std::mt19937& random) {
  const auto pick = [&](std::initializer_list<int> values) {
    return *(values.begin() + static_cast<std::ptrdiff_t>(random() % values.size()));
  };
  AttentionProblem p;
  p.pass = Pass::backward;
  p.batch = pick({1, 1, 2});
  p.kv_heads = pick({1, 2, 3});
  p.heads = p.kv_heads * pick({1, 2, 3});
  p.seqlen_q = pick({1, 7, 63, 64, 65, 127, 128, 129, 200, 257, 500});
  p.seqlen_k = pick({1, 7, 63, 64, 65, 127, 128, 129, 200, 300, 700});
  p.head_dim = pick({8, 24, 40, 64, 64, 72, 104, 120, 128, 128});
  p.dtype = random() % 2 ? DType::fp16 : DType::bf16;
  if (random() % 3 == 0) p.causal = true;
  else if (random() % 2 == 0) {
    p.window_left = pick({-1, 0, 3, 40, 200});
    p.window_right = pick({-1, 0, 5, 64, 300});
  }
  if (random() % 8 == 0) p.softmax_scale = random() % 2 ? -0.1 : 0.25;
  while (p.num_kv_heads() * std::min(p.seqlen_q, p.seqlen_k) < 64) p.batch *= 2;  // rows for E, as above
  return p;
}

/// In the order of key tiles, or (any_order) as parts of dQ come.
std::unique_ptr<Schedule> hopper_schedule(const AttentionProblem& p, bool any_order) {
  TileShape tile{0, 0, 0};
  tile.any_order = any_order;
  return make_schedule("flash_v3", p, tile);
}

bool is_hopper_missing(const AttentionProblem& p) {
  const std::string why = device().why_unsupported(*make_schedule("flash_v3", p));
  if (!why.empty()) MESSAGE("skipped: ", why);
  return !why.empty();
}

TEST_CASE("flash_v3 backward is right on 150 random problems, whatever the order of dQ's parts") {
  const Rounds rounds(150);
  for (int round = rounds.begin(); round < rounds.end(); ++round) {
    INFO(rounds.repeat(round, "flash_v3 backward is right"));
    std::mt19937 random = rounds.generator(round);
    const AttentionProblem p = random_hopper_problem(random);
    if (is_hopper_missing(p)) return;
    const AttentionInputs inputs = seeded_inputs(p, static_cast<std::uint32_t>(random()));
    Judge judge(p, inputs);
    for (bool any_order : {false, true}) {
      CAPTURE(any_order);
      const auto schedule = hopper_schedule(p, any_order);
      for (const Judge::Judged& judged : judge.judge(*schedule, device().run(*schedule, inputs)))
        if (!judged.verified.passed) FAIL_CHECK(text_of(p), ": ", judged.failure);
    }
  }
}

TEST_CASE("flash_v3 backward in order: two hundred runs give the same bits, with many key tiles for each query tile") {
  for (int head_dim : {64, 128})
    for (bool causal : {false, true}) {
      AttentionProblem p;
      p.pass = Pass::backward;
      p.heads = 12;
      p.kv_heads = 6;
      p.seqlen_q = 1000;
      p.seqlen_k = 3000;
      p.head_dim = head_dim;
      p.dtype = DType::bf16;
      p.causal = causal;
      if (is_hopper_missing(p)) return;
      const auto schedule = hopper_schedule(p, false);
      const AttentionInputs inputs = seeded_inputs(p, 7);
      const AttentionOutputs first = device().run(*schedule, inputs);
      int different = 0;
      for (int run = 0; run < 50; ++run) different += !equal_bits(first, device().run(*schedule, inputs));
      CAPTURE(head_dim);
      CAPTURE(causal);
      CHECK(different == 0);
    }
}

TEST_CASE("the log of flash_v3 backward is its schedule, all three kernels") {
  std::mt19937 random(fresh_seed());
  for (int round = 0; round < 30; ++round) {
    AttentionProblem p = random_hopper_problem(random);
    p.head_dim = 40 + 8 * static_cast<int>(random() % 4);
    p.dtype = DType::bf16;
    if (is_hopper_missing(p)) return;
    const auto schedule = make_schedule("flash_v3", p);
    INFO(text_of(p));
    check_log(expected_log(*schedule), device().log(*schedule, seeded_inputs(p, 1)));
  }
}

class PlainMemory final : public DeviceMemory {
 public:
  void* allocate(std::int64_t bytes) override {
    void* data = nullptr;
    return cudaMalloc(&data, static_cast<std::size_t>(bytes)) == cudaSuccess ? data : nullptr;
  }
  void release(void* data) noexcept override { cudaFree(data); }
  std::int64_t free_bytes() override { return std::int64_t{1} << 30; }
  void fill(void* target, int byte, std::int64_t bytes) override {
    check_cuda(cudaMemset(target, byte, static_cast<std::size_t>(bytes)), "filling");
  }
  void copy_in(void* target, const void* host, std::int64_t bytes) override {
    check_cuda(cudaMemcpy(target, host, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice), "copying");
  }
  void copy_out(void* host, const void* source, std::int64_t bytes) override {
    check_cuda(cudaMemcpy(host, source, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost), "copying");
  }
};

TEST_CASE("the GPU's reference of the gradients and all parts of their tolerance are the CPU's") {
  std::mt19937 random(fresh_seed());
  for (int round = 0; round < 12; ++round) {
    AttentionProblem p;
    p.pass = Pass::backward;
    p.kv_heads = 2;
    p.heads = 2 * (1 + round % 2);
    p.seqlen_q = 40 + static_cast<int>(random() % 60);
    p.seqlen_k = 40 + static_cast<int>(random() % 60);
    p.head_dim = round < 9 ? 8 + static_cast<int>(random() % 60) : 256;
    p.dtype = round % 3 == 0 ? DType::fp32 : round % 3 == 1 ? DType::fp16 : DType::bf16;
    p.causal = round % 4 == 1;
    if (round % 4 == 2) p.window_left = 10;
    const AttentionInputs inputs = seeded_inputs(p, static_cast<std::uint32_t>(random()));
    const AttentionOutputs reference = reference_attention(p, inputs), plain = same_precision_attention(p, inputs);
    PlainMemory memory;
    const Workspace workspace(*make_schedule("flash_v2", p), inputs, memory);
    const std::vector<unsigned char> stored = encode(p.dtype, plain.o.values);  // an O that a kernel could have stored
    memory.copy_in(workspace.params().o, stored.data(), static_cast<std::int64_t>(stored.size()));
    const FullReference full = full_reference_on_gpu(p, workspace.params());
    const OfGradients<Array> inherited = inherited_from_forward(p, inputs, plain, reference);
    const auto check_same = [&](const char* name, const Array& gpu, const Array& cpu, double relative = 1e-11) {
      INFO(name, ": ", text_of(p));
      CHECK(distance(gpu, cpu) <= relative * largest_magnitude(cpu));
    };
    check_same("O", full.outputs.o, reference.o);
    check_same("dQ", full.outputs.d_q, reference.d_q);
    check_same("dK", full.outputs.d_k, reference.d_k);
    check_same("dV", full.outputs.d_v, reference.d_v);
    constexpr double kOfADifference = 1e-6;  // O as stored less O: eight digits cancel in fp32
    check_same("inherited by dQ", full.inherited.d_q, inherited.d_q, kOfADifference);
    check_same("inherited by dV", full.inherited.d_v, inherited.d_v, kOfADifference);
    // The CPU takes the largest dP over all keys, the GPU over those that the row sees: never more than the CPU.
    double largest_excess = 0;
    for (std::size_t n = 0; n < inherited.d_k.values.size(); ++n)
      largest_excess = std::max(largest_excess, full.inherited.d_k.values[n] - inherited.d_k.values[n]);
    CHECK(largest_excess <= kOfADifference * largest_magnitude(inherited.d_k));
    if (p.mask().left < 0 && p.mask().right < 0)
      check_same("inherited by dK", full.inherited.d_k, inherited.d_k, kOfADifference);
    // Yardsticks of one precision differ by the order of their additions: the GPU's E lies among those of many orders.
    OfGradients<double> least = largest_errors(plain, reference), most = least;
    constexpr double OfGradients<double>::* kAll[] = {&OfGradients<double>::d_q, &OfGradients<double>::d_k,
                                                      &OfGradients<double>::d_v};
    for (int order = 1; order < 16; ++order) {
      const Reordered other(p, inputs, order);
      const OfGradients<double> e =
          largest_errors(other.restored(same_precision_attention(other.problem(), other.inputs())), reference);
      for (auto of : kAll) {
        least.*of = std::min(least.*of, e.*of);
        most.*of = std::max(most.*of, e.*of);
      }
    }
    INFO("E: ", text_of(p));
    for (auto of : kAll) {
      CHECK(full.plain_errors.*of <= 1.5 * most.*of);
      CHECK(1.5 * full.plain_errors.*of >= least.*of);
    }
  }
}

TEST_CASE("a backward problem too large for the CPU is checked against the GPU's reference, then timed") {
  for (DType dtype : {DType::fp32, DType::bf16}) {
    AttentionProblem p;
    p.pass = Pass::backward;
    p.heads = 2;
    p.kv_heads = 1;
    p.seqlen_q = 700;
    p.seqlen_k = 650;
    p.dtype = dtype;
    p.causal = true;
    for (const std::string& rung : backward_rungs(dtype)) {
      CAPTURE(rung);
      MeasureOptions options;
      options.counters = false;
      const Measurement row = device().measure(*make_schedule(rung, p), options);  // throws where a check fails
      for (const auto& [name, v] : verifications(row, p.pass)) {
        CAPTURE(name);
        CHECK(v.passed);
        CHECK(v.tolerance_used > 0);
      }
      CHECK(row.time_us.value.value_or(0) > 0);
    }
  }
}

TEST_CASE("larger random problems through the backward kernels") {
  const Rounds rounds(30);
  for (int round = rounds.begin(); round < rounds.end(); ++round) {
    INFO(rounds.repeat(round, "larger random problems"));
    std::mt19937 random = rounds.generator(round);
    AttentionProblem p;
    p.pass = Pass::backward;
    p.kv_heads = 1 + static_cast<int>(random() % 2);
    p.heads = p.kv_heads * (1 + static_cast<int>(random() % 3));
    p.seqlen_q = 1 + static_cast<int>(random() % 600);
    p.seqlen_k = 1 + static_cast<int>(random() % 600);
    p.head_dim = 1 + static_cast<int>(random() % (round % 2 ? 128 : 256));
    p.dtype = round % 3 == 0 ? DType::fp32 : round % 3 == 1 ? DType::fp16 : DType::bf16;
    p.causal = random() % 2 == 0;
    if (round >= 20) add_sparsity(p, random);
    const AttentionInputs inputs = seeded_inputs(p, static_cast<std::uint32_t>(random()));
    Judge judge(p, inputs);
    for (const std::string& rung : backward_rungs(p)) judge.check(rung);
  }
}

}  // namespace
}  // namespace flashscope::kernels
