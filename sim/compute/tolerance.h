// When is an output right? The one tolerance rule of the project.
//
//   |output - reference| <= 2 E + 2 ulp       for every element
//
// E is the largest error that plain attention in the same precision makes anywhere in the tensor, ulp the spacing of
// the output's dtype at the reference value. So a result may be twice as wrong as what everybody accepts, plus two
// units in the last place, and no absolute number has to fit every dtype and magnitude.
//
// Limit: E is the largest of many errors. In fp32, where nothing but the order of additions differs, a tensor of a
// handful of elements can have E = 0 by luck and fail a good result. judge.h takes E from several orders then.
#pragma once
#include <cstdint>
#include <string>

#include "sim/compute/compute.h"

namespace flashscope {

/// Error of an output against the float64 reference, and the tolerance it was held to.
struct Verification {
  bool passed = false;
  double max_abs = 0, mean_abs = 0;  // over elements finite on both sides; NaN when there is none but something failed
  double tolerance_used = 0;         // largest share of its tolerance that any element took; > 1 fails, infinity: not a
                                     // number, or an infinity that should not be one
  std::int64_t nonfinite = 0;        // elements that are not finite where the reference is
  std::int64_t first_nonfinite = -1;  // index of the first of them in `values`, or -1
  std::int64_t first_bad = -1;        // index of the first element outside its tolerance, or -1
  std::string worst;                  // element that took the largest share: "head 3, row 17, column 5"; "" when passed
};

/// Compares element by element. `same_precision` is the yardstick E comes from: same_precision_attention(), or for
/// flash_v1, which rewrites O in the storage dtype each round, compute() running the same schedule. `dtype` is that of
/// the output; the LSE is float32 whatever the problem's dtype (float64 for fp64).
/// Where the reference is infinite or NaN, only the same infinity or NaN passes. Elements where the yardstick is not
/// finite say nothing about E. Throws Error(internal) when the shapes differ.
Verification compare(const Array& output, const Array& reference, const Array& same_precision, DType dtype);

/// The same where E is known. (From a part of the tensor it is at most the whole one's: the stricter rule.)
/// `more`, of the output's shape, is added to the tolerance of each element (gradient_tolerance.h; else null).
Verification compare(const Array& output, const Array& reference, double largest_plain_error, DType dtype,
                     const Array* more = nullptr);

/// E: the largest error of the yardstick, over elements finite on both sides.
double largest_error(const Array& same_precision, const Array& reference);

}  // namespace flashscope
