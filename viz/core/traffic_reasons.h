// Why a tensor moves as many bytes as it does, read off a prediction: how often it passes through memory, for which
// tiles, and how much of that L2 absorbs.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "sim/engine/engine.h"
#include "sim/schedule/schedule.h"

namespace flashscope::viz {

/// Tensors that move alike and are explained together, e.g. S and P.
struct TensorGroup {
  std::string name;  // "S and P"
  std::vector<Tensor> tensors;
};
/// Every tensor is in exactly one group; those without a line of their own stand alone.
const std::vector<TensorGroup>& tensor_groups();

/// What one run does with a group.
struct GroupTraffic {
  SmTraffic sm;
  HbmTraffic hbm;                      // during the run
  std::int64_t left_in_l2 = 0;         // written, and not yet in HBM when the run ends
  bool left_is_known = true;           // false: written several times, and in part written back
  std::vector<std::string> sentences;  // plain words with the numbers in them
};
GroupTraffic explain(const TensorGroup& group, const Schedule& schedule, const Prediction& prediction);

}  // namespace flashscope::viz
