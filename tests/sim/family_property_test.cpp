// Every algorithm, every option, mixed at random: each element of O, LSE, dQ, dK and dV against the float64 reference.
#include <doctest/doctest.h>

#include <string>

#include "attention_cases.h"
#include "sim/schedule/algorithms.h"
#include "tests/support/random_problem.h"
#include "tests/support/rounds.h"

namespace flashscope {
namespace {

/// GQA, causal, windows, dense and block masks, packed sequences, unequal lengths, empty rows and sequences, both passes;
/// and caches in pages (the tile).
AttentionProblem random_family_problem(std::mt19937& random) {
  AttentionProblem p = random_small_problem(random);
  if (random() % 8 == 0) p.seqlen_q = 0;
  if (random() % 8 == 0) p.seqlen_k = 0;
  if (random() % 2 == 0) add_sparsity(p, random);
  if (random() % 2 == 0) p.pass = Pass::backward;
  return p;
}

TEST_CASE("2,000 random problems through the reference and every schedule, to rounding") {
  const std::uint32_t seed = fresh_seed();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < rounds(2000); ++round) {
    CAPTURE(round);
    const AttentionProblem p = random_family_problem(random);
    const AttentionInputs inputs = random_inputs(p, random);
    const AttentionOutputs reference = reference_attention(p, inputs);
    const TileShape tile{1 + static_cast<int>(random() % 40), 1 + static_cast<int>(random() % 40), 1, random() % 2 == 0,
                         1 + static_cast<int>(random() % 6), false, random_page_size(random)};
    // Rounding scales with the products that are added up, not with the sums.
    const double score = p.head_dim * largest_magnitude(inputs.q) * largest_magnitude(inputs.k);
    const double weighted = p.head_dim * largest_magnitude(inputs.v) * std::max(1.0, largest_magnitude(inputs.d_out));
    const double rows = std::max(1, p.seqlen_q * p.heads / p.kv_heads);
    const double inputs_of_gradients = std::max(1.0, std::max(largest_magnitude(inputs.q), largest_magnitude(inputs.k)));
    for (const Algorithm& algorithm : algorithms(p.pass)) {
      if (algorithm.quantizes) continue;  // fp8_test.cpp
      CAPTURE(algorithm.name);
      const AttentionOutputs out = compute(*make_schedule(algorithm.name, p, tile), inputs);
      constexpr double ulps = 1e-14;
      CHECK(distance(out.o, reference.o) <= ulps * (1 + score) * (1 + largest_magnitude(inputs.v)));
      CHECK(distance(out.lse, reference.lse) <= ulps * (1 + score));
      if (p.pass == Pass::forward) continue;
      const double gradient = ulps * (1 + score) * (1 + weighted) * inputs_of_gradients;
      CHECK(distance(out.d_q, reference.d_q) <= gradient);
      CHECK(distance(out.d_k, reference.d_k) <= gradient * rows);
      CHECK(distance(out.d_v, reference.d_v) <= gradient * rows);
    }
  }
}

}  // namespace
}  // namespace flashscope
