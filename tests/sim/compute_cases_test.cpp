// Hand-made cases with known answers, on the reference and on every algorithm.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "attention_cases.h"
#include "sim/count/count.h"
#include "sim/compute/pages.h"
#include "sim/compute/rounding.h"
#include "sim/error.h"
#include "sim/schedule/algorithms.h"

namespace flashscope {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Bitwise for infinities, 1e-5 relative or absolute otherwise; NaN never.
bool near(double value, double right, double tolerance) {
  if (std::isinf(right)) return value == right;
  return std::fabs(value - right) <= tolerance * std::max(1.0, std::fabs(right));
}

void check_values(const char* who, const Array& found, const std::vector<double>& right, double tolerance) {
  CAPTURE(who);
  REQUIRE(found.values.size() == right.size());
  for (std::size_t n = 0; n < right.size(); ++n) {
    CAPTURE(n);
    CAPTURE(found.values[n]);
    CAPTURE(right[n]);
    CHECK(near(found.values[n], right[n], tolerance));
  }
}

const std::vector<TileShape>& tiles() {
  static const std::vector<TileShape> shapes = {
      {1, 1, 1},   {2, 1, 1},       {1, 2, 1},       {3, 2, 1},           {4, 4, 1},
      {32, 32, 1}, {2, 1, 1, true}, {3, 2, 1, true}, {1, 1, 1, false, 2}, {2, 2, 1, true, 3},
      {4, 1, 1, false, 9}};
  return shapes;
}

/// True where every element is a value of e4m3: an algorithm that quantises then rounds no input of one column.
bool is_exact_in_fp8(const AttentionInputs& inputs) {
  for (const Array* array : {&inputs.q, &inputs.k, &inputs.v})
    for (double x : array->values)
      if (!(round_to(DType::fp8, x) == x)) return false;
  return true;
}

/// The reference, and every algorithm at every tile shape, in fp64 and fp32. Those that quantise take part where their
/// rounding changes nothing.
void check_everywhere(AttentionProblem p, const AttentionInputs& inputs, const std::vector<double>& o,
                      const std::vector<double>& lse, double tolerance = 1e-5) {
  const AttentionOutputs reference = reference_attention(p, inputs);
  check_values("reference o", reference.o, o, tolerance);
  check_values("reference lse", reference.lse, lse, tolerance);
  for (DType dtype : {DType::fp64, DType::fp32}) {
    p.dtype = dtype;
    for (const Algorithm& algorithm : algorithms())
      for (TileShape tile : tiles()) {
        if (algorithm.quantizes && !is_exact_in_fp8(inputs)) continue;
        CAPTURE(std::string(name_of(dtype)));
        CAPTURE(tile.br);
        CAPTURE(tile.bc);
        const AttentionOutputs out = compute(*make_schedule(algorithm.name, p, tile), inputs);
        check_values(algorithm.name.c_str(), out.o, o, tolerance);
        check_values(algorithm.name.c_str(), out.lse, lse, tolerance);
      }
  }
}

/// q = 0: every kept key weighs the same and O is a plain mean.
AttentionInputs equal_weights(const AttentionProblem& p, std::vector<double> v) {
  return {Array(p.num_heads(), p.seqlen_q, p.head_dim),
          Array(p.num_kv_heads(), p.seqlen_k, p.head_dim),
          array_of(p.num_kv_heads(), p.seqlen_k, p.head_dim, std::move(v)),
          {}};
}

TEST_CASE("a row that the mask empties gives O = 0 and LSE = -inf") {
  AttentionProblem p = small_problem(2, 2, 1);
  p.dense_mask = true;
  const AttentionInputs inputs{array_of(1, 2, 1, {1, 1}), array_of(1, 2, 1, {0, std::log(3.0)}),
                               array_of(1, 2, 1, {10, 20}), array_of(1, 2, 2, {0, 0, 1, 1})};
  check_everywhere(p, inputs, {0, 17.5}, {-kInfinity, 1.3862944});
}

TEST_CASE("scores far below zero are not an empty row") {
  AttentionProblem p = small_problem(1, 2, 2);
  const AttentionInputs inputs{
      array_of(1, 1, 2, {1, 1}), array_of(1, 2, 2, {-60000, 0, -60000, -1}), array_of(1, 2, 2, {1, 1, 2, 2}), {}};
  check_everywhere(p, inputs, {1.2689414, 1.2689414}, {-59999.6867});

  // fp16: the tiled algorithms keep scores in float32; three passes store -60001 as -60000 and give the plain mean.
  p.dtype = DType::fp16;
  for (const Algorithm& algorithm : algorithms())
    for (TileShape tile : tiles()) {
      if (algorithm.quantizes) continue;  // 60001 is 60000 there
      const bool stores_scores = algorithm.name.rfind("three_pass", 0) == 0;
      const AttentionOutputs out = compute(*make_schedule(algorithm.name, p, tile), inputs);
      CAPTURE(algorithm.name);
      CHECK(near(out.o.values[0], stores_scores ? 1.5 : 1.2689414, 1e-3));
      CHECK(near(out.lse.values[0], stores_scores ? -59999.3069 : -59999.6867, 1e-7));
    }
}

TEST_CASE("the rescale of the online softmax: rising scores, one key a tile") {
  const AttentionProblem p = small_problem(1, 3, 1);
  const AttentionInputs inputs{
      array_of(1, 1, 1, {1}), array_of(1, 3, 1, {0, std::log(2.0), std::log(4.0)}), array_of(1, 3, 1, {0, 1, 2}), {}};
  check_everywhere(p, inputs, {10.0 / 7}, {std::log(7.0)});

  for (const char* name : {"flash_v1", "flash_v2"}) {
    std::vector<TileState> states;
    ComputeOptions options;
    options.after_tile = [&](const TileState& state) { states.push_back(state); };
    compute(*make_schedule(name, p, {1, 1, 1}), inputs, options);
    CAPTURE(name);
    REQUIRE(states.size() == 3);
    const double m[] = {0, 0.6931472, 1.3862944}, l[] = {1, 1.5, 1.75}, rescale[] = {0, 0.5, 0.5};
    const double acc[] = {0, 1, 2.5};
    for (int j = 0; j < 3; ++j) {
      CHECK(states[j].j == j);
      CHECK(near(states[j].m[0], m[j], 1e-7));
      CHECK(near(states[j].l[0], l[j], 1e-12));
      CHECK(near(states[j].rescale[0], rescale[j], 1e-12));
      CHECK(near(states[j].acc.at(0, 0, 0), acc[j], 1e-12));
    }
  }
}

TEST_CASE("causal is aligned to the bottom right, with more keys than queries") {
  AttentionProblem p = small_problem(2, 5, 1);
  p.causal = true;
  check_everywhere(p, equal_weights(p, {1, 2, 3, 4, 5}), {2.5, 3.0}, {1.3862944, 1.6094379});
}

TEST_CASE("causal with more queries than keys leaves the first rows empty") {
  AttentionProblem p = small_problem(5, 2, 1);
  p.causal = true;
  check_everywhere(p, equal_weights(p, {1, 2}), {0, 0, 0, 1, 1.5}, {-kInfinity, -kInfinity, -kInfinity, 0, 0.6931472});
}

TEST_CASE("a window counts its bounds in, and a wide one is plain causal") {
  AttentionProblem p = small_problem(5, 5, 1);
  p.window_left = 2;
  p.window_right = 0;
  const AttentionInputs inputs = equal_weights(p, {1, 2, 3, 4, 5});
  const double ln2 = std::log(2.0), ln3 = std::log(3.0);
  check_everywhere(p, inputs, {1, 1.5, 2, 3, 4}, {0, ln2, ln3, ln3, ln3});
  p.window_left = 4;
  check_everywhere(p, inputs, {1, 1.5, 2, 2.5, 3}, {0, ln2, ln3, std::log(4.0), std::log(5.0)});
}

TEST_CASE("an unlimited right bound is not clamped to the number of keys") {
  AttentionProblem p = small_problem(4, 2, 1);
  p.window_right = INT32_MAX;
  const double ln2 = std::log(2.0);
  check_everywhere(p, equal_weights(p, {1, 2}), {1.5, 1.5, 1.5, 1.5}, {ln2, ln2, ln2, ln2});
}

TEST_CASE("lengths off the tile: no key past the end, no other head's rows") {
  for (int n : {1, 31, 32, 33, 63, 64, 65})
    for (bool causal : {false, true}) {
      AttentionProblem p = small_problem(n, n, 1);
      p.batch = p.heads = p.kv_heads = 2;
      p.causal = causal;
      std::vector<double> v, o, lse;
      for (int head = 0; head < 4; ++head)
        for (int row = 0; row < n; ++row) {
          v.push_back(row + 1000.0 * head);
          o.push_back((causal ? row : n - 1) / 2.0 + 1000.0 * head);
          lse.push_back(std::log(causal ? row + 1.0 : n));
        }
      const AttentionInputs inputs = equal_weights(p, v);
      for (DType dtype : {DType::fp64, DType::fp32}) {
        p.dtype = dtype;
        check_values("reference o", reference_attention(p, inputs).o, o, 1e-6);
        for (const Algorithm& algorithm : algorithms()) {
          if (algorithm.quantizes) continue;  // 1063 has more bits
          const AttentionOutputs out = compute(*make_schedule(algorithm.name, p, {32, 32, 1}), inputs);
          CAPTURE(n);
          check_values(algorithm.name.c_str(), out.o, o, 1e-6);
          check_values(algorithm.name.c_str(), out.lse, lse, 1e-6);
        }
      }
    }
}

TEST_CASE("query heads share KV heads with their neighbours") {
  AttentionProblem p = small_problem(1, 1, 1);
  p.heads = 4;
  p.kv_heads = 2;
  check_everywhere(p, equal_weights(p, {10, 20}), {10, 10, 20, 20}, {0, 0, 0, 0});
}

TEST_CASE("head counts that do not divide are a usage error that names both") {
  for (auto [heads, kv_heads] : {std::pair{5, 2}, {4, 0}, {0, 0}, {2, 4}, {4, -2}}) {
    AttentionProblem p = small_problem(1, 1, 1);
    p.heads = heads;
    p.kv_heads = kv_heads;
    CAPTURE(heads);
    CAPTURE(kv_heads);
    try {
      reference_attention(p, {});
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::usage);
      CHECK(std::string(error.what()).find("--") == 0);
    }
    CHECK_THROWS_AS(make_schedule("flash_v2", p), Error);
  }
}

TEST_CASE("no keys: O = 0 and LSE = -inf everywhere") {
  AttentionProblem p = small_problem(3, 0, 2);
  p.heads = p.kv_heads = 2;
  check_everywhere(p, equal_weights(p, {}), std::vector<double>(12, 0.0), std::vector<double>(6, -kInfinity));
  p.causal = true;
  check_everywhere(p, equal_weights(p, {}), std::vector<double>(12, 0.0), std::vector<double>(6, -kInfinity));
}

TEST_CASE("no queries or no batch: an empty result") {
  AttentionProblem p = small_problem(0, 3, 2);
  check_everywhere(p, equal_weights(p, std::vector<double>(6, 1.0)), {}, {});
  p = small_problem(3, 3, 2);
  p.batch = 0;
  check_everywhere(p, equal_weights(p, {}), {}, {});
  for (const Algorithm& algorithm : algorithms())
    CHECK(count(*make_schedule(algorithm.name, p, {2, 2, 1})).total.sm == SmTraffic{});
}

TEST_CASE("no heads or no columns is a usage error") {
  AttentionProblem p = small_problem(3, 3, 0);
  CHECK_THROWS_AS(reference_attention(p, {}), Error);
  CHECK_THROWS_AS(make_schedule("flash_v2", p), Error);
}

TEST_CASE("NaN and infinity in the inputs reach the rows that see them, and no other") {
  AttentionProblem p = small_problem(3, 3, 1);
  p.causal = true;
  const AttentionInputs clean{
      array_of(1, 3, 1, {1, 1, 1}), array_of(1, 3, 1, {1, 2, 3}), array_of(1, 3, 1, {1, 2, 3}), {}};
  for (double poison : {kNaN, kInfinity}) {
    AttentionInputs inputs = clean;
    inputs.k.at(0, 1, 0) = poison;  // key 1: rows 1 and 2 see it
    const AttentionOutputs right = reference_attention(p, inputs);
    CHECK(right.o.values[0] == 1);
    CHECK(std::isnan(right.o.values[1]));
    for (const Algorithm& algorithm : algorithms())
      for (TileShape tile : tiles()) {
        const AttentionOutputs out = compute(*make_schedule(algorithm.name, p, tile), inputs);
        CAPTURE(algorithm.name);
        CHECK(out.o.values[0] == 1);
        CHECK(std::isnan(out.o.values[1]));
        CHECK(std::isnan(out.o.values[2]));
        CHECK(std::isnan(out.lse.values[1]));
      }
  }
}

TEST_CASE("a row whose visible scores are all -inf counts as empty") {
  const AttentionProblem p = small_problem(1, 2, 1);
  const AttentionInputs inputs{
      array_of(1, 1, 1, {1}), array_of(1, 2, 1, {-kInfinity, -kInfinity}), array_of(1, 2, 1, {1, 2}), {}};
  check_everywhere(p, inputs, {0}, {-kInfinity});
}

TEST_CASE("fp8 has no infinity, and empty rows are still empty") {
  AttentionProblem p = small_problem(5, 2, 1);
  p.causal = true;
  p.dtype = DType::fp8;
  for (const Algorithm& algorithm : algorithms()) {
    const AttentionOutputs out = compute(*make_schedule(algorithm.name, p, {2, 1, 1}), equal_weights(p, {1, 2}));
    check_values(algorithm.name.c_str(), out.o, {0, 0, 0, 1, 1.5}, 0);
    CHECK(out.lse.values[0] == -kInfinity);
  }
}

TEST_CASE("inputs of another shape are refused with both shapes") {
  const AttentionProblem p = small_problem(2, 3, 1);
  AttentionInputs inputs = equal_weights(p, {1, 2, 3});
  const auto schedule = make_schedule("flash_v2", p);
  inputs.keep = Array(1, 2, 3);
  CHECK_THROWS_AS(compute(*schedule, inputs), Error);  // a mask that the problem does not announce
  inputs.keep = {};
  inputs.v = Array(1, 2, 1);
  try {
    compute(*schedule, inputs);
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    CHECK(std::string(error.what()).find("(1, 2, 1)") != std::string::npos);
    CHECK(std::string(error.what()).find("(1, 3, 1)") != std::string::npos);
  }
}

TEST_CASE("split_kv: any number of splits, also more than key tiles, and parts without a key") {
  AttentionProblem p = small_problem(2, 7, 1);
  p.heads = 12;
  p.kv_heads = 4;
  p.window_left = 1;  // the parts before the last see nothing
  p.window_right = 0;
  std::mt19937 random(4);
  const AttentionInputs inputs = random_inputs(p, random);
  const AttentionOutputs right = reference_attention(p, inputs);
  for (int splits : {1, 2, 3, 7, 20})
    for (int br : {1, 2, 8, 16}) {  // heads of a CTA: 3, 3, 2, 1
      const AttentionOutputs out = compute(*make_schedule("split_kv", p, {br, 1, 1, false, splits}), inputs);
      CAPTURE(splits);
      CAPTURE(br);
      CHECK(distance(out.o, right.o) < 1e-14);
      CHECK(distance(out.lse, right.lse) < 1e-14);
    }
}

TEST_CASE("split_kv: K and V in pages, wherever those lie, give the bits of K and V in one piece") {
  AttentionProblem p = small_problem(3, 150, 2);
  p.batch = 3;
  p.heads = 4;
  p.kv_heads = 2;
  std::mt19937 random(5);
  const AttentionInputs inputs = random_inputs(p, random);
  for (int bc : {1, 24, 32, 100})
    for (int page_size : {16, 32, 128, 256})
      for (bool backward_keys : {false, true}) {
        CAPTURE(bc);
        CAPTURE(page_size);
        const AttentionOutputs whole = compute(*make_schedule("split_kv", p, {2, bc, 1, backward_keys, 2}), inputs);
        const AttentionOutputs paged =
            compute(*make_schedule("split_kv", p, {2, bc, 1, backward_keys, 2, false, page_size}), inputs);
        CHECK(paged.o.values == whole.o.values);
        CHECK(paged.lse.values == whole.lse.values);
      }
  const std::vector<int> table = make_block_table(p, 16);  // 3 sequences of 10 pages, each place once, and shuffled
  std::vector<int> sorted = table, in_order(30);
  std::iota(in_order.begin(), in_order.end(), 0);
  CHECK(table != in_order);
  std::sort(sorted.begin(), sorted.end());
  CHECK(sorted == in_order);
}

TEST_CASE("split_kv: pages are powers of two, and whole sectors") {
  AttentionProblem p = small_problem(1, 100, 33);
  const auto with = [&](int page_size) { return make_schedule("split_kv", p, {0, 0, 0, false, 1, false, page_size}); };
  for (int page_size : {1, 8, 24, -16, 131072}) {
    CAPTURE(page_size);
    CHECK_THROWS_AS(with(page_size), Error);
  }
  CHECK_NOTHROW(with(16));
  p.dtype = DType::fp8;  // 16 rows of 33 bytes
  CHECK_THROWS_AS(with(16), Error);
  CHECK_NOTHROW(with(32));
  CHECK(make_schedule("flash_v2", p, {0, 0, 0, false, 1, false, 24})->tile().page_size == 0);  // as with splits
}

TEST_CASE("split_kv: more parts than can be counted are refused") {
  AttentionProblem p = small_problem(1 << 20, 1, 1);
  p.batch = p.heads = p.kv_heads = 1 << 8;
  CHECK_NOTHROW(make_schedule("split_kv", p, {1, 1, 1, false, 4}));
  CHECK_THROWS_AS(make_schedule("split_kv", p, {1, 1, 1, false, 65536}), Error);
}

}  // namespace
}  // namespace flashscope
