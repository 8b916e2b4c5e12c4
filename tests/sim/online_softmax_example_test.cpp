// The eight-key example of tests/data, step by step: what the inspector and `attend --steps` show.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "attention_cases.h"
#include "sim/schedule/algorithms.h"
#include "tests/support/paths.h"

namespace flashscope {
namespace {

Array matrix(const nlohmann::json& rows) {
  Array array(1, static_cast<int>(rows.size()), static_cast<int>(rows.at(0).size()));
  array.values.clear();
  for (const nlohmann::json& row : rows)
    for (double value : row) array.values.push_back(value);
  return array;
}

TEST_CASE("eight keys in tiles of two: every m, l, acc of flash_v2 within 1e-15") {
  const nlohmann::json example =
      nlohmann::json::parse(std::ifstream(test_data("online_softmax_example.json")));
  AttentionProblem p = small_problem(1, 8, 4);
  p.softmax_scale = example.at("scale");
  const AttentionInputs inputs{matrix(example.at("q")), matrix(example.at("k")), matrix(example.at("v")), {}};

  std::vector<TileState> states;
  ComputeOptions options;
  options.after_tile = [&](const TileState& state) { states.push_back(state); };
  const AttentionOutputs out = compute(*make_schedule("flash_v2", p, {1, 2, 1}), inputs, options);
  const AttentionOutputs full = reference_attention(p, inputs);

  const nlohmann::json& steps = example.at("steps");
  REQUIRE(states.size() == steps.size());
  for (std::size_t n = 0; n < states.size(); ++n) {
    CAPTURE(n);
    CHECK(states[n].j == steps[n].at("tile").get<int>());
    CHECK(std::fabs(states[n].m.at(0) - steps[n].at("m").get<double>()) <= 1e-15);
    CHECK(std::fabs(states[n].l.at(0) - steps[n].at("l").get<double>()) <= 1e-15);
    CHECK(std::fabs(states[n].rescale.at(0) - steps[n].at("alpha").get<double>()) <= 1e-15);
    for (int d = 0; d < 4; ++d)
      CHECK(std::fabs(states[n].acc.at(0, 0, d) - steps[n].at("acc")[d].get<double>()) <= 1e-15);
  }
  CHECK(std::fabs(out.lse.values[0] - example.at("lse").get<double>()) <= 1e-15);

  double largest = 0;
  for (int d = 0; d < 4; ++d) {
    CHECK(std::fabs(out.o.at(0, 0, d) - example.at("out_online")[d].get<double>()) <= 1e-15);
    CHECK(std::fabs(full.o.at(0, 0, d) - example.at("out_full")[d].get<double>()) <= 1e-15);
    largest = std::max(largest, std::fabs(out.o.at(0, 0, d) - full.o.at(0, 0, d)));
  }
  MESSAGE("online minus full softmax: " << largest << ", in the example "
                                        << example.at("max_abs_difference").get<double>());
  CHECK(largest > 0);  // another order of additions is another rounding
  CHECK(largest <= 4 * example.at("max_abs_difference").get<double>());
}

}  // namespace
}  // namespace flashscope
