// Plots as values: ranges, places, ticks, text, CSV.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

#include "viz/core/figure.h"

using namespace flashscope::viz;

TEST_CASE("a fitted axis holds every point, whatever the points are") {
  const unsigned seed = std::random_device{}();
  INFO("seed ", seed);
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> exponent(-12, 15);
  for (AxisScale scale : {AxisScale::linear, AxisScale::log10, AxisScale::log2})
    for (int round = 0; round < 200; ++round) {
      Figure figure;
      figure.x.scale = figure.y.scale = scale;
      Series series;
      for (int n = 0; n < round % 7; ++n)
        series.points.push_back({std::pow(10.0, exponent(random)), std::pow(10.0, exponent(random)), ""});
      series.points.push_back({0, -1, ""});
      series.points.push_back({std::nan(""), std::numeric_limits<double>::infinity(), ""});
      figure.series.push_back(series);
      for (bool vertical : {false, true}) {
        const Axis axis = fitted(vertical ? figure.y : figure.x, figure, vertical);
        CHECK(axis.lo < axis.hi);
        if (scale != AxisScale::linear) CHECK(axis.lo > 0);
        for (const FigurePoint& point : series.points) {
          const double value = vertical ? point.y : point.x;
          const double place = place_on(axis, value);
          if (!std::isfinite(value) || (scale != AxisScale::linear && value <= 0)) {
            CHECK(std::isnan(place));
            continue;
          }
          CHECK(place >= -1e-9);
          CHECK(place <= 1 + 1e-9);
          CHECK(std::fabs(place_on(axis, value_at(axis, place)) - place) <= 1e-9);
        }
        const auto marks = ticks(axis, 8);
        CHECK(marks.size() <= 40);
        for (double mark : marks) {
          CHECK(place_on(axis, mark) >= -1e-6);
          CHECK(place_on(axis, mark) <= 1 + 1e-6);
          CHECK_FALSE(tick_text(axis, mark).empty());
        }
      }
    }
}

TEST_CASE("ticks are round and read with their unit") {
  CHECK(ticks({"", Unit::count, AxisScale::log2, 200, 5000}, 10) == std::vector<double>{256, 512, 1024, 2048, 4096});
  CHECK(ticks({"", Unit::plain, AxisScale::linear, 0, 10}, 5) == std::vector<double>{0, 2, 4, 6, 8, 10});
  CHECK(tick_text({"", Unit::bytes}, 8.66e9) == "8.66 GB");
  CHECK(tick_text({"", Unit::time_us}, 12.3) == "12.3 µs");
  CHECK(tick_text({"", Unit::count}, 4096) == "4,096");
  CHECK(tick_text({"", Unit::flops_per_s}, 66.9e12) == "66.9 TFLOP/s");
}

TEST_CASE("CSV keeps every value and quotes what needs it") {
  Figure figure;
  figure.x.label = "N, rows";
  figure.y.label = "bytes";
  figure.series.push_back({"a \"b\"", Role::left, Series::Form::measured_dots, {{256, 1.5, "x,y"}}});
  figure.guides.push_back({false, 80e9, "limit"});
  const std::string csv = csv_of(figure);
  CHECK(csv.find("series,form,\"N, rows\",bytes,label\n") == 0);
  CHECK(csv.find("\"a \"\"b\"\"\",measured,256.0,1.5,\"x,y\"\n") != std::string::npos);
  CHECK(csv.find("limit") != std::string::npos);
  CHECK(csv_of(Sheet{{"a", "b"}, {{"1", "2,3"}}}) == "a,b\n1,\"2,3\"\n");
}
