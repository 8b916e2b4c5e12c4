#include "viz/cli/ladder.h"

#include <algorithm>

#include "sim/schedule/algorithms.h"
#include "viz/cli/format.h"
#include "viz/cli/table.h"

namespace flashscope {

double peak_flops_per_s(const Schedule& schedule, const Machine& machine) {
  const auto& kernels = schedule.kernels();
  const bool on_tensor = std::any_of(kernels.begin(), kernels.end(),
                                     [](const KernelLaunch& launch) { return on_tensor_cores(launch.matrix_unit); });
  const bool in_bytes = algorithm_named(schedule.algorithm(), schedule.problem().pass).quantizes;
  const Quantity& per_clk = !on_tensor ? machine.fma_flops_per_clk
                            : in_bytes ? machine.tensor_fp8_flops_per_clk
                                       : machine.tensor_fp16_flops_per_clk;
  return per_clk.value * machine.num_sms.value * machine.sm_clock_mhz.value * 1e6;
}

std::string ladder_text(const std::vector<LadderRow>& rows, const Machine& machine) {
  using enum Table::Align;
  Table table({left, right, right, right, right, right, right, right, right, right, right});
  table.row({"", "time", "predicted", "TFLOP/s", "predicted", "of peak", "predicted", "SM bytes", "predicted", "HBM bytes",
             "predicted"});
  for (const LadderRow& row : rows) {
    const std::string& name = row.schedule->algorithm();
    if (!row.measured) {
      table.row({name + ": " + row.refusal});
      continue;
    }
    const kernels::Measurement& m = *row.measured;
    const Machine here = at_measured_clock(machine, m);
    const std::int64_t flops = attention_flops(row.schedule->problem());
    const double peak = peak_flops_per_s(*row.schedule, here);
    const std::string none = "n/a";
    const double measured_us = m.time_us.value.value_or(0), predicted_us = row.predicted ? row.predicted->time_us : 0;
    const auto microseconds = [&](double us) { return us > 0 ? grouped_decimal(us, 1) + " µs" : none; };
    const auto share = [&](double us) {
      return us > 0 && peak > 0 ? formatted("{:.1f} %", 100 * static_cast<double>(flops) / (us * 1e-6 * peak)) : none;
    };
    using Bytes = kernels::Measured<std::int64_t>;
    const auto counted = [&](const Bytes& read, const Bytes& written) {
      return read.value && written.value ? decimal_bytes(*read.value + *written.value) : "unavailable";
    };
    const auto& p = row.predicted;
    table.row({name, microseconds(measured_us), microseconds(predicted_us), tflops_text(flops, measured_us),
               tflops_text(flops, predicted_us), share(measured_us), share(predicted_us),
               counted(m.sm_read_bytes, m.sm_write_bytes),
               p ? decimal_bytes(p->sm_read_bytes + p->sm_write_bytes) : none, counted(m.hbm_read_bytes, m.hbm_write_bytes),
               p ? decimal_bytes(p->hbm_read_bytes + p->hbm_write_bytes) : none});
  }
  return table.text();
}

}  // namespace flashscope
