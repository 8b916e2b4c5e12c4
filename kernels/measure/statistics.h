// The few statistics that measuring needs.
#pragma once
#include <vector>

namespace flashscope::kernels {

/// The value at `share` (0 to 1) of the sorted samples, linear between the two nearest ranks: share 0.5 of an even
/// number of samples is the mean of the middle two. Throws Error(internal) without samples or outside 0 to 1.
double percentile(std::vector<double> samples, double share);

double median(std::vector<double> samples);

}  // namespace flashscope::kernels
