#include "sim/trace/trace.h"

namespace flashscope {

const char* name_of(Reason reason) {
  static constexpr const char* names[kNumReasons] = {"hbm", "l2",      "smem",   "tensor", "fma",
                                                     "exp", "barrier", "launch", "idle"};
  return names[static_cast<int>(reason)];
}

}  // namespace flashscope
