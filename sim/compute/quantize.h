// One tile on its way to e4m3: what the executor does for a rung that quantises, and what a kernel's bytes are held to.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "sim/compute/rounding.h"
#include "sim/schedule/fp8_rung.h"

namespace flashscope {

/// Divides the rows of a tile (`row(n)` has `width` columns) by the tile's scale, which it returns. Not rounded yet:
/// round_to(DType::fp8, ·) does that. What is not finite becomes NaN, and has no say in the scale.
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

// ---- rows of Q and K: rotated in fp16
// -----------------------------------------------------------------------------------

/// What the kernel learns of a row before it rotates it: the column that rounding should keep, and a power of two that
/// brings the row into the middle of fp16's range.
struct RowLargest {
  int column = 0;
  int exponent = 0;       // the row times 2^exponent has its largest magnitude in [64, 128), or is smaller
  bool is_number = true;  // false: an element is infinite or none, or so large that the rotated row might leave float32
};

/// The column of the largest magnitude, the first of several. The kernel compares sixteen bits at a time, of which the
/// last say where the element stood: magnitudes are compared in steps of width / 8 units in the last place.
template <class At>
RowLargest largest_of_row(DType dtype, int columns, int width, const At& at) {
  RowLargest largest;
  double magnitude = -1;
  for (int d = 0; d < columns; ++d) {
    const double x = std::fabs(static_cast<double>(at(d))), step = width / 8 * ulp_of(dtype, x);
    if (!std::isfinite(x)) largest.is_number = false;
    if (!(std::floor(x / step) * step > magnitude)) continue;
    magnitude = std::floor(x / step) * step;
    largest.column = d;
  }
  constexpr int kUp = 7, kMost = 127;  // 2^128 is no float32
  int exponent = kUp - kMost;
  if (magnitude > 0) std::frexp(magnitude, &exponent);
  largest.exponent = std::min(kUp - exponent, kMost);
  if (std::ldexp(magnitude, std::ilogb(width)) >= 0x1p128) largest.is_number = false;
  return largest;
}

inline double in_half(double x) { return round_to(DType::fp16, x); }

/// rotate_row() with every sum rounded to fp16, of a row times 2^exponent.
template <class Real>
void rotate_row_in_half(Real* x, int width, int exponent) {
  for (int n = 0; n < width; ++n) x[n] = static_cast<Real>(in_half(std::ldexp(static_cast<double>(x[n]), exponent)));
  rotate_row(x, width, [](Real sum) { return static_cast<Real>(in_half(static_cast<double>(sum))); });
}

/// Moves a row in fp16 that was rotated and divided by its scale, so that rounding keeps the direction of `column`
/// (fp8_rung.h). Sums run as in the kernel: in pairs of fp16, 32 columns after the other, then over lanes in float32.
template <class Real>
void keep_column(Real* z, int width, int column) {
  constexpr int kChunk = 8 * kRotateLanes;
  const auto sign = [&](int d) { return is_hadamard_negative(d, column) ? -1.0 : 1.0; };
  const auto moved = [&](int d, double t) { return in_half(static_cast<double>(z[d]) - t * sign(d)); };
  float t = 0;
  for (int round = 0; round < kKeepColumnRounds; ++round) {
    float lanes[kRotateLanes];
    for (int lane = 0; lane < kRotateLanes; ++lane) {
      double sums[2] = {};  // of even columns and of odd ones
      for (int chunk = 0; chunk < width; chunk += kChunk) {
        double here[2] = {};
        for (int n = 0; n < 8; ++n) {
          const int d = 8 * lane + n;
          const double error =
              in_half(round_to(DType::fp8, moved(chunk + d, in_half(t))) - static_cast<double>(z[chunk + d]));
          here[n % 2] = in_half(here[n % 2] + error * sign(d));
        }
        for (int odd = 0; odd < 2; ++odd) sums[odd] = in_half(sums[odd] + here[odd] * sign(chunk));
      }
      lanes[lane] = static_cast<float>(sums[0]) + static_cast<float>(sums[1]);
    }
    for (int step = 1; step < kRotateLanes; step *= 2)
      for (int lane = 0; lane + step < kRotateLanes; lane += 2 * step) lanes[lane] += lanes[lane + step];
    t += lanes[0] * (1.0f / static_cast<float>(width));
  }
  for (int d = 0; d < width; ++d) z[d] = static_cast<Real>(moved(d, in_half(t)));
}

/// A tile of Q or K: `row(n)` has `width` columns, the first `columns` as they came, the others 0. Rotated, divided by
/// the tile's scale, which it returns, and moved; not rounded to e4m3 yet.
template <class Real, class Row>
Real rotate_tile(DType dtype, Range rows, int columns, int width, const Row& row) {
  std::vector<RowLargest> of_rows;
  float largest = 0;
  for (int n = rows.begin; n < rows.end; ++n) {
    Real* const x = row(n);
    of_rows.push_back(largest_of_row(dtype, columns, width, [&](int d) { return x[d]; }));
    if (!of_rows.back().is_number) continue;
    rotate_row_in_half(x, width, of_rows.back().exponent);
    for (int d = 0; d < width; ++d)
      largest = std::max(largest, std::ldexp(static_cast<float>(std::fabs(x[d])), -of_rows.back().exponent));
  }
  const float scale = fp8_scale(largest);
  for (int n = rows.begin; n < rows.end; ++n) {
    const RowLargest& of_row = of_rows[static_cast<std::size_t>(n - rows.begin)];
    const double factor =
        in_half(std::ldexp(1.0, -of_row.exponent) / static_cast<double>(scale));  // 0: nothing is left
    for (int d = 0; d < width; ++d)
      row(n)[d] = of_row.is_number ? static_cast<Real>(in_half(static_cast<double>(row(n)[d]) * factor))
                                   : std::numeric_limits<Real>::quiet_NaN();
    if (of_row.is_number) keep_column(row(n), width, of_row.column);
  }
  return static_cast<Real>(scale);
}

}  // namespace flashscope
