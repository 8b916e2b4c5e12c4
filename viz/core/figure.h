// A plot as plain values: axes, series, guides. Inspectors compute one, viz/render draws it, exports write it; none of
// the three knows the others.
#pragma once
#include <string>
#include <vector>

namespace flashscope::viz {

/// What the numbers of an axis are, so that ticks and hovered values read as people write them.
enum class Unit { plain, count, bytes, time_us, flops_per_s, share };
enum class AxisScale { linear, log10, log2 };

struct Axis {
  std::string label;  // "N, rows and keys"
  Unit unit = Unit::plain;
  AxisScale scale = AxisScale::linear;
  double lo = 0, hi = 0;  // shown; equal: from the points
};

/// Whose a series is; the palette gives it a colour and a mark, and both tell it from the others.
enum class Role { left, right, limit, note };

struct FigurePoint {
  double x = 0, y = 0;
  std::string label;  // shown under the mouse, besides the values
};

struct Series {
  enum class Form { line, predicted_dots, measured_dots };  // measured dots are rings: open where predicted are filled
  std::string name;
  Role role = Role::left;
  Form form = Form::line;
  std::vector<FigurePoint> points;  // a line's in the order of x; values that are not finite are left out
};

/// A line across the whole plot, at one value of an axis.
struct Guide {
  bool vertical = false;
  double at = 0;
  std::string label;
};

struct Figure {
  std::string title, note;  // note: a sentence below, e.g. why something is missing
  Axis x, y;
  std::vector<Series> series;
  std::vector<Guide> guides;
};

/// The axis with its range set: from the points and guides where it was not given, widened to round numbers. Always
/// lo < hi, and positive on a logarithmic scale.
Axis fitted(const Axis& axis, const Figure& figure, bool vertical);

/// Where a value stands between lo (0) and hi (1); below 0 or above 1 outside. NaN for what the scale cannot show.
double place_on(const Axis& axis, double value);
double value_at(const Axis& axis, double place);

/// Values of the marks along an axis: at most `most`, round, inside [lo, hi].
std::vector<double> ticks(const Axis& axis, int most);
/// "4,096", "8.66 GB", "12.3 µs"
std::string tick_text(const Axis& axis, double value);

/// The series as CSV: series,form,x,y,label. Numbers as number_text() writes them.
std::string csv_of(const Figure& figure);

/// A table as plain values: what lists show and exports write.
struct Sheet {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};
std::string csv_of(const Sheet& sheet);

}  // namespace flashscope::viz
