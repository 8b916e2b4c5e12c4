// Every kernel that is built, on problems small enough for compute-sanitizer (kernels/check_and_record.sh sanitize).
#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

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

TEST_CASE("every kernel on small problems: each dtype and width, dense and sparse, both passes, caches in pages") {
  std::set<std::pair<Pass, std::string>> ran;
  for (DType dtype : {DType::fp32, DType::fp16, DType::bf16})
    for (int head_dim : {32, 64, 120, 128, 256})
      for (Pass pass : {Pass::forward, Pass::backward})
        for (bool is_sparse : {false, true}) {
          AttentionProblem p = small_problem(dtype, head_dim, pass);
          if (is_sparse) {
            p.cu_seqlens_q = {0, 60, 60, 140};
            p.cu_seqlens_k = {0, 75, 100, 210};
            p.block_mask.mask = std::make_shared<const BlockMask>(
                make_block_mask(BlockPattern::random, 0.5, 3, 40, p.seqlen_q, p.seqlen_k));
          }
          const AttentionInputs inputs = seeded_inputs(p, 7);
          const Judge judge(p, inputs);
          for (const std::string& rung : pass == Pass::forward ? rungs(p) : backward_rungs(p))
            judge.check(rung), ran.emplace(pass, rung);
          if (pass == Pass::forward && !is_sparse) judge.check("split_kv", 2, 16);
          if (pass == Pass::backward) continue;
          if (const auto schedule = make_schedule("flash_v3_fp8", p); device().why_unsupported(*schedule).empty()) {
            const AttentionOutputs outputs = device().run(*schedule, inputs);
            CHECK(std::all_of(outputs.o.values.begin(), outputs.o.values.end(),
                              [](double x) { return std::isfinite(x); }));
          }
        }
  for (DType dtype : {DType::fp32, DType::fp16}) {
    for (const std::string& rung : rungs(dtype)) CHECK_MESSAGE(ran.count({Pass::forward, rung}) == 1, rung);
    for (const std::string& rung : backward_rungs(dtype)) CHECK_MESSAGE(ran.count({Pass::backward, rung}) == 1, rung);
  }
}

}  // namespace
}  // namespace flashscope::kernels
