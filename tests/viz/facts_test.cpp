// The formulas of sim/schedule/fma_work against the loops that nvcc made of the rungs (kernels/facts/sm_90a.json).
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>

#include "sim/schedule/fma_rungs.h"
#include "sim/schedule/fma_work.h"
#include "tests/support/paths.h"
#include "viz/io/files.h"
#include "viz/io/json_numbers.h"

namespace flashscope {
namespace {

int sum(const WarpWork& work, int Stretch::*count) {
  int n = 0;
  for (const Phase& phase : work.phases)
    for (const Stretch& s : phase.stretches) n += s.*count * phase.times;
  return n;
}

TEST_CASE("four columns of each compiled product: the instructions, and the reads of the busier register bank") {
  const std::string file = source_file("kernels/facts/sm_90a.json");
  const Json facts = parse_json(read_text_file(file), file);
  int compared = 0;
  for (const auto& [name, kernel] : facts["kernels"].items()) {
    std::istringstream words(name);
    std::string rung, dtype;
    int width = 0;
    if (!(words >> rung >> dtype >> width) || rung == "three_pass_softmax") continue;
    INFO(name);
    const int br = width <= 128 ? 64 : 32, bc = width <= 64 ? 64 : 32;  // fma_tile() in algorithms.cpp
    const ThreadTile scores = fma_thread_tile(br, bc), output = fma_thread_tile(br, width);
    for (const Json& loop : kernel["loops"]) {
      const int ffma = loop.value("ffma", 0), instructions = loop["instructions"].get<int>();
      if (ffma < 32 || 2 * ffma < instructions) continue;  // not a product
      const WarpWork works[] = {product_transposed_work(scores.rows, scores.cols, 4),
                                product_work(output.rows, output.cols, 4)};
      // Where both products have the same shape, their counts are the same too.
      const WarpWork* match = nullptr;
      for (const WarpWork& work : works)
        if (sum(work, &Stretch::fma) == ffma) match = &work;
      REQUIRE(match);
      CHECK(std::abs(sum(*match, &Stretch::instructions) - instructions) <= 5);
      const double reads = loop["bank_reads"].get<double>();
      CHECK(sum(*match, &Stretch::bank_reads) == doctest::Approx(reads).epsilon(0.25));
      ++compared;
    }
  }
  CHECK(compared == 72);  // flash_v1, flash_v2: 12 instances of two products; three_pass: 12 of each kernel
}

}  // namespace
}  // namespace flashscope
