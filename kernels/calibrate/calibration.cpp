#include "kernels/calibrate/calibration.h"

#include <algorithm>

#include "kernels/measure/statistics.h"
#include "sim/error.h"

namespace flashscope::kernels {
namespace {

// Lines of one place differ by the way to their slice, a tenth or two; the other half of an A100 or H100 is half as far again.
constexpr double kFarOverNear = 1.3;

}  // namespace

Calibration Device::calibrate(const CalibrateOptions&) {
  throw Error(ErrorKind::unsupported, "this device has no microbenchmarks; a CUDA GPU has");
}

Reading summarise(std::string group, std::string name, std::string unit, const std::vector<double>& samples,
                  std::string method) {
  Reading reading;
  reading.group = std::move(group);
  reading.name = std::move(name);
  reading.unit = std::move(unit);
  reading.value = Measured<double>::of(median(samples));
  reading.p10 = percentile(samples, 0.1);
  reading.p90 = percentile(samples, 0.9);
  reading.samples = static_cast<int>(samples.size());
  reading.method = std::move(method);
  return reading;
}

Reading unmeasured(std::string group, std::string name, std::string unit, std::string reason) {
  Reading reading;
  reading.group = std::move(group);
  reading.name = std::move(name);
  reading.unit = std::move(unit);
  reading.value = Measured<double>::unavailable(std::move(reason));
  return reading;
}

void take_largest(std::vector<Reading>& readings, std::size_t first, const std::string& field) {
  Reading* best = nullptr;
  for (std::size_t n = first; n < readings.size(); ++n)
    if (readings[n].value.value && (!best || *readings[n].value.value > *best->value.value)) best = &readings[n];
  if (best) best->field = field;
}

NearFar split_near_far(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const std::size_t trim = samples.size() / 100;  // a refresh or an interrupt in the way
  samples.erase(samples.end() - static_cast<std::ptrdiff_t>(trim), samples.end());
  double below = 0, above = 0, best = 0;
  for (double s : samples) above += s;
  const std::size_t n = samples.size(), margin = std::max<std::size_t>(n / 20, 1);
  std::size_t cut = 0;
  for (std::size_t k = 1; k < n; ++k) {
    below += samples[k - 1];
    above -= samples[k - 1];
    if (k < margin || n - k < margin) continue;
    const double apart = above / static_cast<double>(n - k) - below / static_cast<double>(k);
    const double between = static_cast<double>(k) * static_cast<double>(n - k) * apart * apart;
    if (between > best) {
      best = between;
      cut = k;
    }
  }
  if (cut == 0) return {samples, {}};
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(cut);
  const std::vector<double> low(samples.begin(), middle), high(middle, samples.end());
  if (median(high) < kFarOverNear * median(low)) return {samples, {}};
  return {low, high};
}

double knee(const std::vector<double>& sizes, const std::vector<double>& values, double share) {
  if (sizes.empty() || sizes.size() != values.size())
    throw Error(ErrorKind::internal, "knee: a curve needs as many sizes as values, at least one");
  const double level = share * *std::max_element(values.begin(), values.end());
  const auto best = static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin());
  for (std::size_t n = best + 1; n < sizes.size(); ++n)
    if (values[n] < level) {
      const double part = (values[n - 1] - level) / (values[n - 1] - values[n]);
      return sizes[n - 1] + part * (sizes[n] - sizes[n - 1]);
    }
  return sizes.back();
}

}  // namespace flashscope::kernels
