// What is measured: one call of the thing, on the default stream, and what makes it repeatable.
#pragma once
#include <functional>

namespace flashscope::kernels {

struct Workload {
  /// Launches the kernels of one call on the default stream; may return before they end.
  std::function<void()> launch;
  /// Brings accumulating outputs back to their start; called before each repetition, never inside what is timed or
  /// counted. May be empty.
  std::function<void()> reset;

  void prepare() const {
    if (reset) reset();
  }
};

}  // namespace flashscope::kernels
