// Every kernel that is built, on problems small enough for compute-sanitizer (kernels/check_and_record.sh sanitize).
#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "gpu_support.h"

namespace flashscope::kernels {
namespace {

/// Two key tiles of every rung at least, tails of rows and keys, two query heads to a KV head.
AttentionProblem small_problem(DType dtype, int head_dim, Pass pass) {
  AttentionProblem p;
  p.heads = 2;
  p.kv_heads = 1;
  p.seqlen_q = 140;
  p.seqlen_k = 210;
  p.head_dim = head_dim;
  p.dtype = dtype;
  p.pass = pass;
  p.causal = true;
  return p;
}

/// Each width, dense and sparse, and of a forward pass caches in pages too.
void check_every_kernel(DType dtype, Pass pass) {
  std::set<std::string> ran;
  for (int head_dim : {32, 64, 120, 128, 256})
    for (bool is_sparse : {false, true}) {
      AttentionProblem p = small_problem(dtype, head_dim, pass);
      if (is_sparse) {
        p.cu_seqlens_q = {0, 60, 60, 140};
        p.cu_seqlens_k = {0, 75, 100, 210};
        p.block_mask.mask = std::make_shared<const BlockMask>(
            make_block_mask(BlockPattern::random, 0.5, 3, 40, p.seqlen_q, p.seqlen_k));
      }
      const AttentionInputs inputs = seeded_inputs(p, 7);
      Judge judge(p, inputs);
      for (const std::string& rung : pass == Pass::forward ? rungs(p) : backward_rungs(p))
        judge.check(rung), ran.insert(rung);
      if (pass == Pass::backward) continue;
      if (!is_sparse) judge.check("split_kv", 2, 16);
      if (const auto schedule = make_schedule("flash_v3_fp8", p); device().why_unsupported(*schedule).empty()) {
        const AttentionOutputs outputs = device().run(*schedule, inputs);
        CHECK(std::all_of(outputs.o.values.begin(), outputs.o.values.end(), [](double x) { return std::isfinite(x); }));
      }
    }
  for (const std::string& rung : pass == Pass::forward ? rungs(dtype) : backward_rungs(dtype))
    CHECK_MESSAGE(ran.count(rung) == 1, rung);
}

// A case each, so that a sanitizer can look at them side by side.
TEST_CASE("small problems: forward, fp32") { check_every_kernel(DType::fp32, Pass::forward); }
TEST_CASE("small problems: forward, fp16") { check_every_kernel(DType::fp16, Pass::forward); }
TEST_CASE("small problems: forward, bf16") { check_every_kernel(DType::bf16, Pass::forward); }
TEST_CASE("small problems: backward, fp32") { check_every_kernel(DType::fp32, Pass::backward); }
TEST_CASE("small problems: backward, fp16") { check_every_kernel(DType::fp16, Pass::backward); }
TEST_CASE("small problems: backward, bf16") { check_every_kernel(DType::bf16, Pass::backward); }

}  // namespace
}  // namespace flashscope::kernels
