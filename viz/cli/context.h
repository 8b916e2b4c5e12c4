// What a command may touch outside itself. main() gives the real things, a test its own.
#pragma once
#include <functional>
#include <memory>
#include <string_view>

#include "kernels/kernels.h"

namespace flashscope {

struct Context {
  /// Results, to standard output. Throws Error(io) when they did not arrive.
  std::function<void(std::string_view)> print;
  /// Progress, warnings and the one line of an error, to standard error. Never throws.
  std::function<void(std::string_view)> note;
  /// kernels::open_device(), with its errors.
  std::function<std::unique_ptr<kernels::Device>()> open_device;
};

}  // namespace flashscope
