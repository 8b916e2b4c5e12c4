// What goes wrong around a kernel: memory that runs out, and a kernel that takes the context with it. This file comes
// last: after an illegal access no later test of the process could use the GPU.
#include <cuda_runtime_api.h>

#include "gpu_support.h"
#include "kernels/common/device_memory.h"
#include "sim/error.h"

namespace flashscope::kernels {
namespace {

/// CUDA memory that fails, or lies, at the n-th allocation.
class FaultyMemory final : public DeviceMemory {
 public:
  int fail_allocation = 0, wild_allocation = 0;

  void* allocate(std::int64_t bytes) override {
    if (fail_allocation > 0 && --fail_allocation == 0) return nullptr;
    if (wild_allocation > 0 && --wild_allocation == 0) return kWild;
    void* data = nullptr;
    return cudaMalloc(&data, static_cast<std::size_t>(bytes)) == cudaSuccess ? data : nullptr;
  }
  void release(void* data) noexcept override {
    if (data != kWild) cudaFree(data);
  }
  std::int64_t free_bytes() override {
    std::size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    return static_cast<std::int64_t>(free);
  }
  void fill(void* target, int byte, std::int64_t bytes) override {
    if (target != kWild) cudaMemset(target, byte, static_cast<std::size_t>(bytes));
  }
  void copy_in(void* target, const void* host, std::int64_t bytes) override {
    cudaMemcpy(target, host, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice);
  }
  void copy_out(void* host, const void* source, std::int64_t bytes) override {
    cudaMemcpy(host, source, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost);
  }

 private:
  void* const kWild = reinterpret_cast<void*>(std::uintptr_t{1} << 46);  // an address that nothing has
};

ErrorKind kind_of_failure(const std::function<void()>& action, std::string* text = nullptr) {
  try {
    action();
  } catch (const Error& error) {
    if (text) *text = error.what();
    return error.kind();
  }
  FAIL("nothing was thrown");
  return ErrorKind::internal;
}

TEST_CASE("scores that do not fit are refused before anything runs, and a small problem runs right after") {
  AttentionProblem p;
  p.heads = p.kv_heads = 1;
  p.seqlen_q = 64;
  p.seqlen_k = 64;
  p.dtype = DType::fp32;
  AttentionProblem huge = p;  // S and P: 2 × 512 GiB; Q, K, V, O fit
  huge.seqlen_q = huge.seqlen_k = 370'728;
  huge.head_dim = 1;
  std::string text;
  const AttentionInputs inputs{Array(1, huge.seqlen_q, 1), Array(1, huge.seqlen_k, 1), Array(1, huge.seqlen_k, 1), {}};
  CHECK(kind_of_failure([&] { device().run(*make_schedule("three_pass", huge), inputs); }, &text) ==
        ErrorKind::resource);
  CHECK(text.find("largest --seqlen that fits") != std::string::npos);
  check_rung("three_pass", p, seeded_inputs(p, 1));
}

TEST_CASE("fifty failed allocations leave the free memory as it was") {
  const auto memory = std::make_shared<FaultyMemory>();
  const auto faulty = open_device(memory);
  AttentionProblem p;
  p.heads = p.kv_heads = 2;
  p.seqlen_q = p.seqlen_k = 1024;
  const AttentionInputs inputs = seeded_inputs(p, 1);
  const auto schedule = make_schedule("three_pass", p);
  faulty->run(*schedule, inputs);
  const std::int64_t before = memory->free_bytes();
  for (int round = 0; round < 50; ++round) {
    memory->fail_allocation = 3;
    CHECK(kind_of_failure([&] { faulty->run(*schedule, inputs); }) == ErrorKind::resource);
  }
  CHECK(std::llabs(memory->free_bytes() - before) <= 2 << 20);
  memory->fail_allocation = 0;
  CHECK_NOTHROW(faulty->run(*schedule, inputs));
}

TEST_CASE("a kernel that writes out of bounds is named, and what comes after it is told that the session is lost") {
  const auto memory = std::make_shared<FaultyMemory>();
  const auto faulty = open_device(memory);
  AttentionProblem p;
  p.heads = p.kv_heads = 1;
  p.seqlen_q = p.seqlen_k = 64;
  const AttentionInputs inputs = seeded_inputs(p, 1);
  memory->wild_allocation = 4;  // S of three_pass: Q, K, V come before it
  std::string text;
  CHECK(kind_of_failure([&] { faulty->run(*make_schedule("three_pass", p), inputs); }, &text) == ErrorKind::internal);
  CHECK(text.find("three_pass_scores") != std::string::npos);
  CHECK(kind_of_failure([&] { faulty->run(*make_schedule("flash_v2", p), inputs); }, &text) == ErrorKind::env);
  CHECK(text.find("three_pass_scores") != std::string::npos);
  CHECK(text.find("flash_v2") == std::string::npos);
  CHECK(kind_of_failure([&] { faulty->info(); }) == ErrorKind::env);
}

}  // namespace
}  // namespace flashscope::kernels
