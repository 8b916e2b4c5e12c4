// The kernels room as the rest of the product sees it: plain C++, no CUDA types. Where CUDA is absent the same
// functions exist and say why nothing can run. A test puts its own Device behind this seam.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/compute/compute.h"
#include "sim/schedule/schedule.h"

namespace flashscope::kernels {

/// A measured value, or why there is none. Never 0 or NaN in place of a reason.
template <class T>
struct Measured {
  std::optional<T> value;
  std::string reason;  // set exactly when value is not

  static Measured of(T v) { return {v, ""}; }
  static Measured unavailable(std::string why) { return {std::nullopt, std::move(why)}; }
};

struct DeviceInfo {
  std::string name;            // "NVIDIA H200"
  int compute_capability = 0;  // 90 for 9.0
  int num_sms = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t smem_bytes_per_cta = 0;  // opt-in limit
  std::int64_t memory_bytes = 0;
  std::string driver_version;                       // "580.159", or "" when NVML did not say
  std::string cuda_version;                         // of the runtime, "13.0"
  Measured<double> sm_clock_mhz, memory_clock_mhz;  // now
};

/// Error of an output against the float64 reference, and the tolerance it was held to (docs/measuring.md).
struct Verification {
  bool passed = false;
  double max_abs = 0, mean_abs = 0;
  double tolerance_used = 0;   // largest share of its tolerance that any element took; > 1 fails
  std::int64_t nonfinite = 0;  // elements that are not finite where the reference is
  std::string worst;           // "head 3, row 17, column 5", or "" when passed
};

/// One row of a recording: a problem, a rung, what the GPU did. SM and HBM bytes as in docs/glossary.md.
struct Measurement {
  Verification o, lse;         // of a backward row: of the forward pass before it
  Verification d_q, d_k, d_v;  // backward rows only
  Measured<double> time_us;   // median of `launches`, empty kernel subtracted
  double time_spread_us = 0;  // 90th minus 10th percentile
  int launches = 0;
  Measured<double> sm_clock_mhz;  // while the row was timed
  Measured<std::int64_t> sm_read_bytes, sm_write_bytes;
  Measured<std::int64_t> hbm_read_bytes;         // the background subtracted
  Measured<std::int64_t> hbm_write_bytes;        // drained: dirty lines forced out; floor and background subtracted
  Measured<std::int64_t> hbm_write_floor_bytes;  // writes that the drain alone causes
  Measured<std::int64_t> hbm_background_read_bytes, hbm_background_write_bytes;  // by the GPU itself, in the same time
};

/// What was verified of a row, by name: O and LSE, of a backward row also dQ, dK and dV.
std::vector<std::pair<std::string, Verification>> verifications(const Measurement& row, Pass pass);

struct MeasureOptions {
  int launches = 20;
  bool counters = true;
  bool check = true;  // verify against the reference first; a failed check throws Error(verify)
  std::uint32_t seed = 1;
  /// Called between steps with the share done; returning false cancels with Error(internal, "cancelled").
  std::function<bool(double)> progress;
};

/// One operation that a kernel, compiled with the observer, reported: what it moved, in the words of the schedule.
struct LoggedOp {
  int kernel = 0;
  std::int64_t cta = 0;
  Op op = Op::barrier;
  Tensor tensor = Tensor::Q;  // load, store
  int head = 0, row = 0, rows = 0, col = 0, cols = 0, depth = 0;
  std::int64_t bytes = 0;
  int heads = 1;
  bool operator==(const LoggedOp&) const = default;
};
/// The schedule's operations in the same form and order (barriers left out): what a log must equal.
std::vector<LoggedOp> expected_log(const Schedule& schedule);

struct Calibration;  // kernels/calibrate/calibration.h
struct CalibrateOptions;

class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceInfo info() const = 0;
  /// "" when the rung of this schedule can run here, else why not and what can (tile, dtype, head_dim, GPU).
  virtual std::string why_unsupported(const Schedule& schedule) const = 0;
  /// Runs the rung once on poisoned outputs between guard zones; of a backward pass first the same algorithm's forward
  /// pass, which leaves O and LSE. Throws Error(unsupported), Error(resource) with needed
  /// and free bytes and the largest seqlen that fits, Error(env) when the device is lost, Error(internal) when a guard
  /// zone was written.
  virtual AttentionOutputs run(const Schedule& schedule, const AttentionInputs& inputs) = 0;
  /// Of a backward pass what is timed and counted is the backward kernels alone.
  virtual Measurement measure(const Schedule& schedule, const MeasureOptions& options) = 0;
  /// Runs the rung compiled with the observer; small problems only (Error(unsupported) above 2^20 operations).
  virtual std::vector<LoggedOp> log(const Schedule& schedule, const AttentionInputs& inputs) = 0;
  /// Microbenchmarks of the GPU, no attention kernel among them. Throws Error(unsupported) where the device has none.
  virtual Calibration calibrate(const CalibrateOptions& options);
};

/// The GPU of this machine. Throws Error(env) with one text each for: built without CUDA, no driver, driver too old
/// (supported and needed versions), no device.
std::unique_ptr<Device> open_device();

}  // namespace flashscope::kernels
