// One tile on its way to e4m3: what the executor does for a rung that quantises, and what a kernel's bytes are held to.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/compute/rounding.h"
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

/// The column of the largest magnitude of a row, the first of several: what the rounding of the rotated row should keep.
template <class At>
int largest_column(int columns, const At& at) {
  int largest = 0;
  for (int d = 1; d < columns; ++d)
    if (std::fabs(at(d)) > std::fabs(at(largest))) largest = d;
  return largest;
}

/// Moves a row that was rotated and divided by its scale, so that rounding keeps the direction of `column` (fp8_rung.h).
/// Sums run as in the kernel, lane by lane, then over pairs of lanes: the same bits.
template <class Real>
void keep_column(Real* y, int width, int column) {
  const auto sign = [&](int d) { return is_hadamard_negative(d, column) ? Real(-1) : Real(1); };
  Real t = 0;
  for (int round = 0; round < kKeepColumnRounds; ++round) {
    Real sums[kRotateLanes] = {};
    for (int d = 0; d < width; ++d) {
      const Real moved = y[d] - t * sign(d);
      sums[d / 8 % kRotateLanes] += (static_cast<Real>(round_to(DType::fp8, static_cast<double>(moved))) - y[d]) * sign(d);
    }
    for (int step = 1; step < kRotateLanes; step *= 2)
      for (int lane = 0; lane + step < kRotateLanes; lane += 2 * step) sums[lane] += sums[lane + step];
    t += sums[0] / static_cast<Real>(width);
  }
  for (int d = 0; d < width; ++d) y[d] -= t * sign(d);
}

}  // namespace flashscope
