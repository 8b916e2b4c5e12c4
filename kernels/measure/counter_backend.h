// The seam between the counting protocol (counters.h) and whoever reads the hardware: CUPTI (cupti_backend.cu) or a
// test.
#pragma once
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace flashscope::kernels {

/// The counters could not be read. The times of a row stay valid.
class CounterFault : public std::runtime_error {
 public:
  enum Kind { permission, unavailable };
  CounterFault(Kind kind, const std::string& text) : std::runtime_error(text), m_kind(kind) {}
  Kind kind() const { return m_kind; }

 private:
  Kind m_kind;
};

class CounterBackend {
 public:
  virtual ~CounterBackend() = default;

  /// Values of `metrics`, in their order, over `body` alone. A GPU counts only so many things at once, so body may run
  /// several times (passes), each time after `before_pass`, which is not counted. Both may leave work on the default
  /// stream; it is waited for. A value that the hardware did not deliver is NaN.
  /// Throws CounterFault; lets through what the two callbacks throw.
  virtual std::vector<double> collect(const std::vector<std::string>& metrics, const std::function<void()>& before_pass,
                                      const std::function<void()>& body) = 0;
};

/// CUPTI's Range Profiler on the current CUDA device. Throws CounterFault. Exists only where CUDA does.
std::unique_ptr<CounterBackend> open_cupti();

}  // namespace flashscope::kernels
