#include "kernels/measure/statistics.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "sim/error.h"

namespace flashscope::kernels {

double percentile(std::vector<double> samples, double share) {
  if (samples.empty()) throw Error(ErrorKind::internal, "percentile of no samples");
  if (!(share >= 0 && share <= 1)) throw Error(ErrorKind::internal, "percentile outside 0 to 1");
  std::sort(samples.begin(), samples.end());
  const double rank = share * static_cast<double>(samples.size() - 1);
  const auto below = static_cast<std::size_t>(rank);
  const std::size_t above = std::min(below + 1, samples.size() - 1);
  const double part = rank - static_cast<double>(below);
  return samples[below] + part * (samples[above] - samples[below]);
}

double median(std::vector<double> samples) { return percentile(std::move(samples), 0.5); }

}  // namespace flashscope::kernels
