#include "viz/core/views.h"

namespace flashscope::viz {

const std::vector<Entry<View>>& views() {
  static const std::vector<Entry<View>> list = {
      {View::explore, "explore", "Explore", "every parameter a control, two algorithms on one clock"},
      {View::validate, "validate", "Validate", "predicted against recorded, row by row"},
      {View::learn, "learn", "Learn", "lessons, with the stage that they speak of"},
  };
  return list;
}

const std::vector<Entry<Inspector>>& inspectors() {
  static const std::vector<Entry<Inspector>> list = {
      {Inspector::numbers, "numbers", "Numbers", "predicted beside recorded, for both algorithms"},
      {Inspector::bytes, "bytes", "Bytes", "where the bytes go: by tensor and level, and why"},
      {Inspector::roofline, "roofline", "Roofline", "FLOP/s against FLOPs per HBM byte"},
      {Inspector::sweep, "sweep", "Sweep", "bytes, time or memory against N, Br, Bc or heads"},
      {Inspector::softmax, "softmax", "Softmax", "online softmax, tile by tile, on scores that can be edited"},
      {Inspector::occupancy, "occupancy", "Occupancy", "CTAs an SM holds, and what limits them"},
      {Inspector::memory, "memory", "Memory", "memory against N, and the largest N of each GPU"},
      {Inspector::source, "source", "Source", "the kernel's source, with the lines of the operation under way"},
  };
  return list;
}

}  // namespace flashscope::viz
