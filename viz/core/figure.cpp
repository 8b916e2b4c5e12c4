#include "viz/core/figure.h"

#include <algorithm>
#include <cmath>

#include "viz/core/text.h"
#include "viz/io/json_numbers.h"
#include "viz/io/prediction_io.h"

namespace flashscope::viz {
namespace {

bool can_show(const Axis& axis, double value) {
  return std::isfinite(value) && (axis.scale == AxisScale::linear || value > 0);
}

double transformed(const Axis& axis, double value) {
  return axis.scale == AxisScale::linear ? value : axis.scale == AxisScale::log2 ? std::log2(value) : std::log10(value);
}

/// 1, 2 or 5 times a power of ten, at least `step`.
double round_step(double step) {
  const double power = std::pow(10.0, std::floor(std::log10(step)));
  for (double factor : {1.0, 2.0, 5.0})
    if (power * factor >= step * (1 - 1e-9)) return power * factor;
  return power * 10;
}

const char* name_of(Series::Form form) {
  switch (form) {
    case Series::Form::line: return "line";
    case Series::Form::predicted_dots: return "predicted";
    case Series::Form::measured_dots: return "measured";
  }
  return "";
}

}  // namespace

Axis fitted(const Axis& axis, const Figure& figure, bool vertical) {
  Axis result = axis;
  if (axis.lo < axis.hi) return result;
  double lo = 0, hi = 0;
  bool any = false;
  const auto cover = [&](double value) {
    if (!can_show(axis, value)) return;
    lo = any ? std::min(lo, value) : value;
    hi = any ? std::max(hi, value) : value;
    any = true;
  };
  for (const Series& series : figure.series)
    for (const FigurePoint& point : series.points) cover(vertical ? point.y : point.x);
  for (const Guide& guide : figure.guides)
    if (guide.vertical != vertical) cover(guide.at);
  if (!any) lo = hi = 1;
  if (axis.scale == AxisScale::linear) {
    lo = std::min(0.0, lo);  // lengths are compared from zero
    if (!(hi > lo)) hi = lo + 1;
    const double step = round_step((hi - lo) / 5);
    result.lo = std::floor(lo / step) * step;
    result.hi = std::ceil(hi / step + 0.15) * step;
    return result;
  }
  // A little air on both sides; whole decades would waste half of a narrow plot.
  const double base = axis.scale == AxisScale::log2 ? 2 : 10;
  const double a = transformed(axis, lo), b = transformed(axis, hi);
  const double air = std::max(0.06 * (b - a), axis.scale == AxisScale::log2 ? 0.3 : 0.15);
  result.lo = std::pow(base, a - air);
  result.hi = std::pow(base, b + air);
  return result;
}

double place_on(const Axis& axis, double value) {
  if (!can_show(axis, value)) return std::nan("");
  const double lo = transformed(axis, axis.lo), hi = transformed(axis, axis.hi);
  return (transformed(axis, value) - lo) / (hi - lo);
}

double value_at(const Axis& axis, double place) {
  const double lo = transformed(axis, axis.lo), hi = transformed(axis, axis.hi);
  const double value = lo + place * (hi - lo);
  return axis.scale == AxisScale::linear ? value : std::pow(axis.scale == AxisScale::log2 ? 2.0 : 10.0, value);
}

std::vector<double> ticks(const Axis& axis, int most) {
  std::vector<double> marks;
  most = std::max(2, most);
  if (axis.scale == AxisScale::linear) {
    const double step = round_step((axis.hi - axis.lo) / most);
    for (double k = std::ceil(axis.lo / step - 1e-9); k * step <= axis.hi * (1 + 1e-12) && marks.size() < 100; ++k)
      marks.push_back(k * step);
    return marks;
  }
  const double base = axis.scale == AxisScale::log2 ? 2 : 10;
  const int first = static_cast<int>(std::ceil(transformed(axis, axis.lo) - 1e-9));
  const int last = static_cast<int>(std::floor(transformed(axis, axis.hi) + 1e-9));
  const int stride = std::max(1, (last - first + most) / most);
  for (int power = first; power <= last; power += stride) marks.push_back(std::pow(base, power));
  // Two decades or fewer: 2 and 5 as well.
  if (axis.scale == AxisScale::log10 && 3 * (last - first + 1) <= most) {
    for (int power = first - 1; power <= last; ++power)
      for (double factor : {2.0, 5.0}) {
        const double value = factor * std::pow(10.0, power);
        if (value >= axis.lo && value <= axis.hi) marks.push_back(value);
      }
    std::sort(marks.begin(), marks.end());
  }
  return marks;
}

std::string tick_text(const Axis& axis, double value) {
  switch (axis.unit) {
    case Unit::bytes: return value == 0 ? "0" : size_text(value);
    case Unit::time_us: return value == 0 ? "0" : time_text(value);
    case Unit::flops_per_s:
      return value >= 999.5e12 ? three_digits(value / 1e15) + " PFLOP/s" : three_digits(value / 1e12) + " TFLOP/s";
    case Unit::share: return percent_text(value);
    case Unit::count: return grouped(std::llround(value));
    case Unit::plain: break;
  }
  if (value == std::floor(value) && std::fabs(value) < 1e9) return grouped(std::llround(value));
  return three_digits(value);
}

std::string csv_of(const Figure& figure) {
  std::string text = "series,form," + csv_field(figure.x.label) + "," + csv_field(figure.y.label) + ",label\n";
  for (const Series& series : figure.series)
    for (const FigurePoint& point : series.points)
      text += csv_field(series.name) + "," + name_of(series.form) + "," + number_text(point.x) + "," +
              number_text(point.y) + "," + csv_field(point.label) + "\n";
  for (const Guide& guide : figure.guides)
    text += csv_field(guide.label) + ",limit," +
            (guide.vertical ? number_text(guide.at) + "," : "," + number_text(guide.at)) + ",\n";
  return text;
}

std::string csv_of(const Sheet& sheet) {
  std::string text;
  const auto line = [&](const std::vector<std::string>& cells) {
    for (std::size_t n = 0; n < cells.size(); ++n) text += (n ? "," : "") + csv_field(cells[n]);
    text += "\n";
  };
  line(sheet.columns);
  for (const auto& row : sheet.rows) line(row);
  return text;
}

}  // namespace flashscope::viz
