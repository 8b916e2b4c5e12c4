// What `flashscope simulate --json` prints, for the command and for scripts of the page.
#pragma once
#include <optional>

#include "sim/engine/engine.h"
#include "viz/io/json_numbers.h"

namespace flashscope {

/// Forward and backward of one algorithm, each with its own tile, one after the other.
struct TrainingStep {
  double time_us = 0, forward_us = 0;
  std::int64_t flops = 0, flops_executed = 0;
  std::int64_t sm_read_bytes = 0, sm_write_bytes = 0, hbm_read_bytes = 0, hbm_write_bytes = 0;
  std::int64_t peak_memory_bytes = 0;  // the larger of the two: what the other pass alone needs is freed
};

/// Around a backward pass that was predicted; nothing for a forward one.
std::optional<TrainingStep> training_step(const Schedule& schedule, const Machine& machine, Start start,
                                          const Prediction& prediction);

/// docs/file-formats.md.
Json simulate_json(const Schedule& schedule, const Machine& machine, Start start, const Prediction& prediction,
                   const std::optional<TrainingStep>& step);

}  // namespace flashscope
