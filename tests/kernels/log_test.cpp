// The schedules against what kernels really did: the logs in tests/data/kernel_logs.txt were written on a GPU.
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "kernels/common/support.h"
#include "tests/support/logged_problems.h"
#include "tests/support/paths.h"

namespace flashscope {
namespace {

TEST_CASE("each schedule is what its kernel logged on a GPU, operation by operation") {
  std::ifstream file(test_data("kernel_logs.txt"));
  REQUIRE(file.good());
  std::stringstream logged;
  logged << file.rdbuf();
  kernels::DeviceInfo h200;
  h200.compute_capability = 90;
  h200.smem_bytes_per_cta = 232'448;
  std::string expected;
  const std::vector<AttentionProblem> problems = logged_problems();
  for (std::size_t n = 0; n < problems.size(); ++n)
    for (const Algorithm& algorithm : algorithms()) {
      if (algorithm.quantizes) continue;  // compared where it runs: tests/gpu/fp8_test.cpp
      const auto schedule = make_schedule(algorithm.name, problems[n], kLoggedTile);
      if (kernels::why_unsupported(*schedule, h200).empty())
        expected += log_text(algorithm.name, n, kernels::expected_log(*schedule));
    }
  REQUIRE(expected.size() > 10'000);
  CHECK(logged.str() == expected);
}

}  // namespace
}  // namespace flashscope
