#include "viz/core/roofline.h"

#include <algorithm>
#include <cmath>

#include "viz/core/text.h"

namespace flashscope::viz {
namespace {

/// min(bandwidth · intensity, peak) from one side of the plot to the other.
Series roof(const std::string& name, double bytes_per_s, double peak, double from, double to) {
  return {name,
          Role::limit,
          Series::Form::line,
          {{from, std::min(peak, bytes_per_s * from), ""}, {peak / bytes_per_s, peak, "ridge"}, {to, peak, ""}}};
}

std::string flops_text(double flops_per_s) {
  return tick_text({"", Unit::flops_per_s, AxisScale::log10, 0, 0}, flops_per_s);
}

/// Tensor cores take fp16 and bf16 at one rate, and what has no operands for them at all runs on the FMA units.
struct TensorRate {
  std::string dtype;
  double flops_per_clk = 0;
};
TensorRate tensor_rate(const Machine& machine, DType dtype) {
  const double fp8 = machine.tensor_fp8_flops_per_clk.value;
  if (dtype == DType::fp8 && fp8 > 0) return {"fp8", fp8};
  return {dtype == DType::bf16 ? "bf16" : "fp16", machine.tensor_fp16_flops_per_clk.value};
}

}  // namespace

Figure roofline_figure(const Settings& settings, const Machine& machine,
                       const std::array<std::optional<WholeRun>, 2>& runs, const std::vector<Recording>& recordings) {
  Figure figure;
  figure.title = "Roofline of " + machine.title;
  figure.x = {"arithmetic intensity, FLOP per HBM byte", Unit::plain, AxisScale::log10, 0, 0};
  figure.y = {"FLOP/s", Unit::flops_per_s, AxisScale::log10, 0, 0};

  std::vector<Series> points;
  double least_x = 1, most_x = 1000;
  const auto place = [&](const std::string& name, Role role, Series::Form form, double flops, double bytes, double us) {
    if (!(flops > 0 && bytes > 0 && us > 0)) return;
    const double x = flops / bytes, y = flops / us * 1e6;
    points.push_back({name, role, form, {{x, y, flops_text(y) + " in " + time_text(us) + ", " + size_text(bytes)}}});
    least_x = std::min(least_x, x / 2);
    most_x = std::max(most_x, x * 2);
  };
  const auto flops = static_cast<double>(attention_flops(settings.problem));
  for (std::size_t side = 0; side < 2; ++side) {
    if (!runs[side]) continue;
    const std::string& name = settings.algorithms[side];
    const Role role = side == 0 ? Role::left : Role::right;
    if (const auto& p = runs[side]->prediction.value)
      place(name, role, Series::Form::predicted_dots, flops,
            static_cast<double>(p->hbm.read + p->hbm.write + p->hbm_dirty_bytes), p->time_us());
    else if (figure.note.empty())
      figure.note = name + ": " + runs[side]->prediction.reason;
    for (const Recording& recording : recordings) {
      if (recording.machine != settings.gpu) continue;
      const RecordingRow* row = find_row(recording, settings.problem, name, settings.tile, settings.start);
      if (!row) continue;
      const kernels::Measurement& m = row->measured;
      if (m.hbm_read_bytes.value && m.hbm_write_bytes.value && m.time_us.value)
        place(name + ", measured", role, Series::Form::measured_dots, flops,
              static_cast<double>(*m.hbm_read_bytes.value + *m.hbm_write_bytes.value), *m.time_us.value);
    }
  }

  const double clocks = machine.num_sms.value * machine.sm_clock_mhz.value * 1e6;
  const TensorRate rate = tensor_rate(machine, settings.problem.dtype);
  const double fma = machine.fma_flops_per_clk.value * clocks, tensor = rate.flops_per_clk * clocks;
  const double hbm = machine.hbm_read_gb_per_s.value * 1e9;
  figure.series.push_back(roof("FMA units " + flops_text(fma), hbm, fma, least_x, std::max(most_x, 4 * fma / hbm)));
  // The name of the slope, which the roofs share: halfway up.
  const double ridge = fma / hbm, halfway = std::sqrt(least_x * ridge);
  figure.series.push_back({"HBM " + bandwidth_text(hbm / 1e9),
                           Role::limit,
                           Series::Form::line,
                           {{least_x, hbm * least_x, ""}, {halfway, hbm * halfway, ""}}});
  if (tensor > 0)
    figure.series.push_back(roof("tensor cores, " + rate.dtype + " " + flops_text(tensor), hbm, tensor, fma / hbm,
                                 std::max(most_x, 4 * tensor / hbm)));
  for (Series& series : points) figure.series.push_back(std::move(series));
  return figure;
}

}  // namespace flashscope::viz
