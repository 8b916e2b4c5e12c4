// One tile on its way to e4m3: what the executor does for a rung that quantises, and what a kernel's bytes are held to.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/schedule/fp8_rung.h"

namespace flashscope {

/// Divides the rows of a tile (of Q and K rotated already; `row(n)` has `width` columns) by the tile's scale, which it
/// returns. Not rounded yet: round_to(DType::fp8, ·) does that. What is not finite becomes NaN, and has no say in the
/// scale.
template <class Real, class Row>
Real divide_by_scale(Range rows, int width, const Row& row) {
  Real largest = 0;
  for (int n = rows.begin; n < rows.end; ++n)
    for (int d = 0; d < width; ++d)
      if (std::isfinite(row(n)[d])) largest = std::max(largest, std::fabs(row(n)[d]));
  const Real scale = fp8_scale(static_cast<float>(largest));
  for (int n = rows.begin; n < rows.end; ++n)
    for (int d = 0; d < width; ++d) {
      Real& x = row(n)[d];
      x = std::isfinite(x) ? x / scale : std::numeric_limits<Real>::quiet_NaN();
    }
  return scale;
}

}  // namespace flashscope
