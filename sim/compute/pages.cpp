#include "sim/compute/pages.h"

#include <cstdint>
#include <numeric>
#include <random>
#include <utility>

namespace flashscope {

std::vector<int> make_block_table(const AttentionProblem& problem, int page_size) {
  std::vector<int> table(static_cast<std::size_t>(problem.batch) *
                         static_cast<std::size_t>(num_tiles(problem.seqlen_k, page_size)));
  std::iota(table.begin(), table.end(), 0);
  std::mt19937 random(1);  // its numbers are the same everywhere; those of std::shuffle need not be
  for (std::size_t n = table.size(); n > 1; --n) std::swap(table[n - 1], table[random() % n]);
  return table;
}

}  // namespace flashscope
