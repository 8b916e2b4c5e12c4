// Numbers as the narrow formats store them: round to nearest, ties to even, on values held in float64.
#pragma once
#include "sim/problem.h"

namespace flashscope {

/// A binary floating-point format. Sources: IEEE 754-2008 (fp64, fp32, fp16); bf16 is fp32 with 8 significant bits;
/// e4m3 is "FP8 Formats for Deep Learning" (arXiv 2209.05433): no infinity, one NaN pattern, largest value 448.
struct FloatFormat {
  int significand_bits;  // the leading one included
  int min_exponent;      // of the smallest normal number: 2^min_exponent; below it numbers are subnormal
  double max_finite;
  bool has_infinity;  // false: what is too large becomes max_finite (saturation)
};

FloatFormat format_of(DType dtype);

/// The value of `dtype` nearest to x, ties to even. Too large: infinity, or ±448 in fp8, which saturates (infinity
/// too). NaN stays NaN; the sign of zero is kept. Rounds once, straight from float64: through fp32 would round twice.
double round_to(DType dtype, double x);

/// Unit in the last place: the distance from |x| to the next larger value of `dtype`. Below the smallest normal number
/// it is the smallest subnormal; beyond the largest finite value (and for infinity) it is the one there. NaN: NaN.
double ulp_of(DType dtype, double x);

}  // namespace flashscope
