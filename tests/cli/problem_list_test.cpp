// The lists of problems that recordings are made of: every row can run where it is meant to.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "kernels/common/support.h"
#include "sim/schedule/algorithms.h"
#include "tests/cli/support.h"
#include "tests/support/paths.h"
#include "viz/cli/problem_list.h"
#include "viz/io/machine_io.h"

namespace flashscope {
namespace {

kernels::DeviceInfo h200() {
  kernels::DeviceInfo info;
  info.compute_capability = 90;
  info.smem_bytes_per_cta = 232'448;
  return info;
}

/// Of S, whether the algorithm stores it or not.
double score_bytes(const AttentionProblem& p) {
  return static_cast<double>(p.num_heads()) * p.seqlen_q * p.seqlen_k * element_bytes(p.dtype);
}

TEST_CASE("every drawn row names one algorithm, and its kernel can run it on an H200") {
  std::set<std::string> algorithms_drawn[2];
  std::map<DType, int> dtypes;
  int hard = 0, causal = 0, windows = 0, grouped_heads = 0, longest = 0, shortest = kMaxSeqlen, most_heads = 0;
  const double l2 = load_machine("nvidia-h200").l2_bytes.value;
  const std::vector<ListedProblem> rows = read_problem_list(problem_list("drawn.json"), {});
  for (const ListedProblem& row : rows) {
    INFO(row.place);
    REQUIRE(row.algorithms.size() == 1);
    ProblemOptions options = row.options;
    set_problem_option(options, "algorithm", row.algorithms[0]);
    const auto schedule = options.schedule();
    CHECK(kernels::why_unsupported(*schedule, h200()) == "");

    const AttentionProblem& p = schedule->problem();
    algorithms_drawn[p.pass == Pass::backward].insert(schedule->algorithm());
    const bool stores_scores = schedule->algorithm().rfind("three_pass", 0) == 0;
    CHECK((!stores_scores || 2 * score_bytes(p) <= 16e9));
    CHECK((p.head_dim >= 32 && p.head_dim <= 256));
    CHECK(p.num_heads() <= 1024);
    hard += score_bytes(p) >= 0.25 * l2 && score_bytes(p) <= 4 * l2;
    causal += p.causal;
    windows += p.window_left >= 0;
    grouped_heads += p.kv_heads < p.heads;
    ++dtypes[p.dtype];
    longest = std::max(longest, p.seqlen_k);
    shortest = std::min(shortest, p.seqlen_k);
    most_heads = std::max(most_heads, p.num_heads());
  }
  CHECK(rows.size() >= 120);
  CHECK(hard >= 45);
  for (Pass pass : {Pass::forward, Pass::backward})
    for (const Algorithm& algorithm : algorithms(pass))
      if (!algorithm.rung.empty()) CHECK(algorithms_drawn[pass == Pass::backward].count(algorithm.name) == 1);
  for (DType dtype : {DType::fp32, DType::fp16, DType::bf16}) CHECK(dtypes[dtype] >= 10);
  CHECK(causal >= 20);
  CHECK(windows >= 5);
  CHECK(grouped_heads >= 10);
  CHECK(shortest < 256);
  CHECK(longest > 60'000);
  CHECK(most_heads > 900);
}

TEST_CASE("every problem picked by hand can run on an H200 by at least one kernel") {
  for (const ListedProblem& row : read_problem_list(problem_list("problems.json"), {})) {
    INFO(row.place);
    std::vector<std::string> names = row.algorithms;
    if (names.empty())
      for (const Algorithm& algorithm : algorithms(row.options.pass)) names.push_back(algorithm.name);
    CHECK(std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      ProblemOptions options = row.options;
      set_problem_option(options, "algorithm", name);
      return kernels::why_unsupported(*options.schedule(), h200()).empty();
    }));
  }
}

}  // namespace
}  // namespace flashscope
