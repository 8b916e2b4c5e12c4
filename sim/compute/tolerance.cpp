#include "sim/compute/tolerance.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/compute/rounding.h"
#include "sim/error.h"

namespace flashscope {
namespace {

bool same_shape(const Array& a, const Array& b) {
  return a.heads == b.heads && a.rows == b.rows && a.cols == b.cols && a.values.size() == b.values.size();
}

std::string place_of(const Array& array, std::size_t index) {
  const std::size_t cols = static_cast<std::size_t>(array.cols), rows = static_cast<std::size_t>(array.rows);
  return "head " + std::to_string(index / cols / rows) + ", row " + std::to_string(index / cols % rows) + ", column " +
         std::to_string(index % cols);
}

}  // namespace

double largest_error(const Array& same_precision, const Array& reference) {
  if (!same_shape(same_precision, reference))
    throw Error(ErrorKind::internal, "compare: reference and yardstick differ in shape");
  double largest = 0;
  for (std::size_t n = 0; n < reference.values.size(); ++n) {
    const double error = std::fabs(same_precision.values[n] - reference.values[n]);
    if (std::isfinite(error)) largest = std::max(largest, error);
  }
  return largest;
}

Verification compare(const Array& output, const Array& reference, const Array& same_precision, DType dtype) {
  return compare(output, reference, largest_error(same_precision, reference), dtype);
}

Verification compare(const Array& output, const Array& reference, double largest_plain_error, DType dtype,
                     const Array* more) {
  if (!same_shape(output, reference) || (more && !same_shape(output, *more)))
    throw Error(ErrorKind::internal, "compare: output and reference differ in shape");
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double allowed_by_plain = 2 * largest_plain_error;

  Verification result;
  std::size_t worst = 0;
  std::int64_t compared = 0;
  double sum = 0;
  for (std::size_t n = 0; n < output.values.size(); ++n) {
    const double value = output.values[n], right = reference.values[n];
    double share = infinity;  // of the tolerance; stays for NaN and for a wrong infinity
    if (std::isfinite(value) && std::isfinite(right)) {
      const double error = std::fabs(value - right);
      share = error / (allowed_by_plain + 2 * ulp_of(dtype, right) + (more ? more->values[n] : 0));
      result.max_abs = std::max(result.max_abs, error);
      sum += error;
      ++compared;
    } else if (value == right || (std::isnan(value) && std::isnan(right))) {
      share = 0;
    } else if (std::isfinite(right)) {
      if (result.nonfinite++ == 0) result.first_nonfinite = static_cast<std::int64_t>(n);
    }
    if (!(share <= 1) && result.first_bad < 0) result.first_bad = static_cast<std::int64_t>(n);
    if (!(share <= result.tolerance_used)) {
      result.tolerance_used = share;
      worst = n;
    }
  }
  result.passed = result.first_bad < 0;
  if (compared > 0) result.mean_abs = sum / static_cast<double>(compared);
  if (compared == 0 && !result.passed) result.max_abs = result.mean_abs = std::numeric_limits<double>::quiet_NaN();
  if (!result.passed) result.worst = place_of(output, worst);
  return result;
}

}  // namespace flashscope
