// What calibration does with samples: medians and spreads, best patterns, near and far, knees. No GPU.
#include "kernels/calibrate/calibration.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "sim/error.h"

namespace flashscope::kernels {
namespace {

Reading value(const char* name, double v) { return summarise("g", name, "u", {v}, "m"); }

TEST_CASE("a reading is the median of its samples with their 10th and 90th percentile") {
  std::vector<double> samples;
  for (int n = 0; n <= 20; ++n) samples.push_back(100 + n);
  std::shuffle(samples.begin(), samples.end(), std::mt19937(1));
  const Reading r = summarise("HBM", "read", "GB/s", samples, "how");
  CHECK(*r.value.value == 110);
  CHECK(r.p10 == doctest::Approx(102));
  CHECK(r.p90 == doctest::Approx(118));
  CHECK(r.samples == 21);
  CHECK(r.field.empty());
  CHECK_THROWS_AS(summarise("g", "n", "u", {}, ""), Error);
  const Reading none = unmeasured("g", "n", "u", "no such instruction");
  CHECK_FALSE(none.value.value);
  CHECK(none.value.reason == "no such instruction");
}

TEST_CASE("of several patterns the best fills the field, and what was not measured never does") {
  std::vector<Reading> readings = {value("other", 900), value("a", 1), value("b", 3), value("c", 2),
                                   unmeasured("g", "d", "u", "no")};
  take_largest(readings, 1, "field");
  std::vector<std::string> fields;
  for (const Reading& r : readings) fields.push_back(r.field);
  CHECK(fields == std::vector<std::string>{"", "", "field", "", ""});
  std::vector<Reading> nothing = {unmeasured("g", "d", "u", "no")};
  take_largest(nothing, 0, "field");
  take_largest(nothing, 1, "field");
  CHECK(nothing[0].field.empty());
}

TEST_CASE("two halves of an L2 are told apart, one is not, and a few slow loads make no second half") {
  const std::uint32_t seed = std::random_device{}();
  INFO("seed ", seed);
  std::mt19937 random(seed);
  const auto bag = [&](int near, int far, int slow) {
    std::normal_distribution<double> low(280, 20), high(500, 30);
    std::vector<double> samples;
    for (int n = 0; n < near; ++n) samples.push_back(low(random));
    for (int n = 0; n < far; ++n) samples.push_back(high(random));
    for (int n = 0; n < slow; ++n) samples.push_back(3000);
    std::shuffle(samples.begin(), samples.end(), random);
    return samples;
  };
  for (const auto& [near, far] : {std::pair{3000, 1000}, {1000, 1000}, {4000, 400}}) {
    const NearFar split = split_near_far(bag(near, far, 5));
    CAPTURE(near);
    CHECK(static_cast<double>(split.near.size()) == doctest::Approx(near).epsilon(0.02));
    CHECK(static_cast<double>(split.far.size()) == doctest::Approx(far).epsilon(0.15));  // the slowest percent of all is left out
  }
  CHECK(split_near_far(bag(4000, 0, 20)).far.empty());
  CHECK(split_near_far({5, 5, 5, 5}).far.empty());
  CHECK(split_near_far({5}).near.size() == 1);
  CHECK(split_near_far({}).near.empty());
}

TEST_CASE("a knee is where the curve leaves its plateau for good") {
  CHECK(knee({1, 2, 3, 4}, {10, 10, 6, 2}, 0.8) == doctest::Approx(2.5));
  CHECK(knee({1, 2, 3, 4}, {5, 10, 10, 10}, 0.8) == 4);  // the rise before the plateau is not a knee
  CHECK(knee({7}, {1}, 0.9) == 7);
  CHECK_THROWS_AS(knee({}, {}, 0.9), Error);
  CHECK_THROWS_AS(knee({1, 2}, {1}, 0.9), Error);
}

}  // namespace
}  // namespace flashscope::kernels
