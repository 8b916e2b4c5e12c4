// K and V in pages: where each page lies.
#pragma once
#include <vector>

#include "sim/problem.h"

namespace flashscope {

/// The block table, (batch, pages of a sequence): entry n of a batch entry is the place of page n of its keys among all
/// pages. A shuffle, the same in every run: of a cache whose pages were given out one by one while sequences grew.
std::vector<int> make_block_table(const AttentionProblem& problem, int page_size);

}  // namespace flashscope
