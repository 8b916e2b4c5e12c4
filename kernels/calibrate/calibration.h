// What microbenchmarks say about a GPU: the numbers from which a machine description is made. Plain C++; how each
// number is measured stands in this folder's .cu files, one idea a file. No attention kernel takes part.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace flashscope::kernels {

/// One measured number: the median of its samples and how far they spread.
struct Reading {
  std::string group;  // "HBM", "L2", …: a heading of the table
  std::string name;   // "read, 4 × 16 B in flight a thread"
  std::string unit;
  Measured<double> value;   // median
  double p10 = 0, p90 = 0;  // of the samples, in the same unit; meaningless where there is no value
  int samples = 0;          // launches, or single accesses for a latency; 0: asked of the driver, exact
  std::string field;        // the field of a machine description that it fills, in that field's unit; "": shown alone
  std::string method;       // one line: what ran
};

struct Calibration {
  std::vector<Reading> readings;
};

struct CalibrateOptions {
  int launches = 20;     // samples of each number
  bool counters = true;  // count the bytes that reach HBM while L2 overflows; slower, needs permission
  /// Called before each group with the share done and the group's name; returning false cancels with
  /// Error(internal, "cancelled").
  std::function<bool(double, const std::string&)> progress;
};

/// `samples` made into a reading. Throws Error(internal) without samples.
Reading summarise(std::string group, std::string name, std::string unit, const std::vector<double>& samples,
                  std::string method);
/// What was not measured, and why.
Reading unmeasured(std::string group, std::string name, std::string unit, std::string reason);

/// Marks the largest of the readings [first, end) as the one that fills `field`: of several access patterns, the best
/// is what the hardware can do. None is marked where none has a value.
void take_largest(std::vector<Reading>& readings, std::size_t first, const std::string& field);

/// Latencies of two places in one bag, told apart where the two groups lie farthest apart for their size (Otsu, "A threshold
/// selection method from gray-level histograms", 1979); a percent of the slowest is left out. `far` is empty when its
/// median is not well above that of `near`: then all come from one place.
struct NearFar {
  std::vector<double> near, far;
};
NearFar split_near_far(std::vector<double> samples);

/// Where a curve of bandwidth over size leaves its plateau: the largest size up to which every point keeps `share` of
/// the best, linear between points; the last size when it never leaves. Sizes ascend, as many as values.
double knee(const std::vector<double>& sizes, const std::vector<double>& values, double share);

}  // namespace flashscope::kernels
