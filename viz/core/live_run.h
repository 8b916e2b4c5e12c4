// Both algorithms measured on the GPU of this machine, beside the frame loop. What comes out is a recording like the
// shipped ones, so that everything that shows recorded values shows these.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "sim/machine/machine.h"
#include "viz/core/background.h"
#include "viz/core/settings.h"
#include "viz/io/recording.h"

namespace flashscope::viz {

/// kernels::open_device(), or a test's own; empty: there is none. May throw Error.
using OpenDevice = std::function<std::unique_ptr<kernels::Device>()>;

/// A page reaches no GPU that kernels could run on.
#ifdef __EMSCRIPTEN__
inline constexpr bool kCanReachGpu = false;
#else
inline constexpr bool kCanReachGpu = true;
#endif

struct LiveRequest {
  Settings settings;
  int press = 0;  // counts the user's wishes: the same settings can be measured again
  bool operator==(const LiveRequest&) const = default;
};

struct LiveRun {
  std::optional<Recording> recording;  // with the rows so far; its date is empty: it is of now
  std::string message;                 // why a row or all is missing, for the banner; "" when all is well
};

/// A slice opens the device, each further one measures an algorithm (checked against the reference first).
std::unique_ptr<SlicedJob<LiveRun>> make_live_run(const LiveRequest& request, const std::vector<Machine>& machines,
                                                  const OpenDevice& open_device);

}  // namespace flashscope::viz
