#include "viz/cli/simulate_json.h"

#include <algorithm>

#include "sim/schedule/algorithms.h"
#include "viz/io/prediction_io.h"

namespace flashscope {

std::optional<TrainingStep> training_step(const Schedule& schedule, const Machine& machine, Start start,
                                          const Prediction& prediction) {
  AttentionProblem p = schedule.problem();
  if (p.pass != Pass::backward) return std::nullopt;
  p.pass = Pass::forward;
  const auto forward = make_schedule(schedule.algorithm(), p);
  RunOptions run;
  run.start = start;
  const Prediction of_forward = simulate(*forward, machine, run);
  TrainingStep step;
  step.peak_memory_bytes = std::max(forward->peak_memory_bytes(), schedule.peak_memory_bytes());
  for (const Prediction* part : {&of_forward, &prediction}) {
    step.time_us += part->time_us();
    step.flops += part->count.flops;
    step.flops_executed += part->count.flops_executed;
    step.sm_read_bytes += part->count.sm.read;
    step.sm_write_bytes += part->count.sm.write;
    step.hbm_read_bytes += part->hbm.read;
    step.hbm_write_bytes += part->hbm.write;
  }
  if (of_forward.time > 0 && prediction.time > 0) step.time_us += machine.launch_gap_us.value;
  step.forward_us = of_forward.time_us();
  return step;
}

Json simulate_json(const Schedule& schedule, const Machine& machine, Start start, const Prediction& prediction,
                   const std::optional<TrainingStep>& step) {
  Json document = prediction_to_json(schedule, machine, start, prediction);
  if (step)
    document["training_step"] = {{"time_us", json_number(step->time_us)},
                                 {"forward_time_us", json_number(step->forward_us)},
                                 {"flops", step->flops},
                                 {"flops_executed", step->flops_executed},
                                 {"peak_memory_bytes", step->peak_memory_bytes},
                                 {"sm_read_bytes", step->sm_read_bytes},
                                 {"sm_write_bytes", step->sm_write_bytes},
                                 {"hbm_read_bytes", step->hbm_read_bytes},
                                 {"hbm_write_bytes", step->hbm_write_bytes}};
  return document;
}

}  // namespace flashscope
