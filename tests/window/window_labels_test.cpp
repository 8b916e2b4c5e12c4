// Labels of guides: beside their line, on nothing else, whatever the guides are.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "viz/render/label_places.h"

using namespace flashscope::viz;

namespace {

bool apart(const Rect& a, const Rect& b) {
  return a.x >= b.right() || b.x >= a.right() || a.y >= b.bottom() || b.y >= a.bottom();
}

}  // namespace

TEST_CASE("a segment crosses a rectangle when a point of it is inside") {
  const Rect r = {10, 10, 20, 10};
  CHECK(crosses(r, {0, 0}, {40, 30}));
  CHECK(crosses(r, {15, 12}, {16, 13}));
  CHECK(crosses(r, {0, 15}, {50, 15}));
  CHECK_FALSE(crosses(r, {0, 0}, {9, 40}));
  CHECK_FALSE(crosses(r, {0, 25}, {50, 25}));
  CHECK_FALSE(crosses(r, {0, 30}, {40, 22}));
}

TEST_CASE("the name of a diagonal through a crowd lies on no point, no curve and no other label") {
  const unsigned seed = std::random_device{}();
  INFO("seed ", seed);
  std::mt19937 random(seed);
  const auto pick = [&](float lo, float hi) { return std::uniform_real_distribution<float>(lo, hi)(random); };
  for (int round = 0; round < 100; ++round) {
    LabelGround ground = {{40, 30, 400, 300}, 15, 2, {}, {}};
    const Rect& plot = ground.plot;
    ground.curves = {{{plot.x, plot.bottom()}, {plot.right(), plot.y}}};
    for (int n = 0; n < 80; ++n) {  // above and below the diagonal, and at its end most of all
      const float along = 1 - pick(0, 1) * pick(0, 1), off = pick(-25, 25);
      ground.dots.push_back({plot.x + along * plot.w - 5, plot.bottom() - along * plot.h + off - 5, 10, 10});
    }
    ground.taken.push_back({300, 40, 90, 15});
    const Rect wanted = {plot.right() - 170, plot.y + 14, 166, 15};
    const Rect r = place_beside(ground.curves[0], wanted, ground);
    CHECK(r.x >= plot.x);
    CHECK(r.right() <= plot.right());
    CHECK(r.y >= plot.y);
    CHECK(r.bottom() <= plot.bottom());
    CHECK(apart(r, ground.taken[0]));
    CHECK_FALSE(crosses(r, ground.curves[0][0], ground.curves[0][1]));
    for (const Rect& dot : ground.dots) CHECK(apart(r, dot));
  }
  const LabelGround empty = {{0, 0, 400, 300}, 15, 2, {}, {}};
  const Rect free = {200, 20, 100, 15};
  CHECK(place_beside({{0, 300}, {400, 0}}, free, empty).x == free.x);
}

TEST_CASE("labels lie in the plot, beside their own guide, and on no other label or guide") {
  const unsigned seed = std::random_device{}();
  INFO("seed ", seed);
  std::mt19937 random(seed);
  const auto pick = [&](float lo, float hi) { return std::uniform_real_distribution<float>(lo, hi)(random); };
  for (int round = 0; round < 300; ++round) {
    LabelGround ground = {{50, 20, pick(60, 900), pick(40, 600)}, 15, 2, {}, {}};
    const Rect& plot = ground.plot;
    ground.curves.push_back(
        {{plot.x, plot.bottom()}, {pick(plot.x, plot.right()), pick(plot.y, plot.bottom())}, {plot.right(), plot.y}});
    std::vector<GuideLabel> labels;
    for (int n = 0; n < round % 9; ++n) {
      const bool vertical = n % 4 == 3;
      labels.push_back({vertical, vertical ? pick(plot.x, plot.right()) : pick(plot.y, plot.bottom()), pick(10, 300)});
    }
    const auto places = label_places(labels, ground);
    REQUIRE(places.size() == labels.size());
    for (std::size_t n = 0; n < places.size(); ++n) {
      if (!places[n]) continue;
      const Rect& r = *places[n];
      CHECK(r.x >= plot.x);
      CHECK(r.right() <= plot.right() + 1e-3f);
      CHECK(r.y >= plot.y);
      CHECK(r.bottom() <= plot.bottom() + 1e-3f);
      if (!labels[n].vertical) CHECK(std::fabs(r.y + r.h / 2 - labels[n].at) <= r.h);
      for (std::size_t other = 0; other < places.size(); ++other) {
        if (other == n) continue;
        if (places[other]) CHECK(apart(r, *places[other]));
        if (!labels[other].vertical)
          CHECK_FALSE(crosses(r, {plot.x, labels[other].at}, {plot.right(), labels[other].at}));
      }
    }
  }
}

TEST_CASE("four sizes of GPU memory over seven decades all get their label, off both curves") {
  // 16, 24, 80 and 141 GB where a decade is 43 pixels high; two curves that climb, and N now.
  LabelGround ground = {{626, 133, 626, 353}, 18, 2, {}, {}};
  ground.curves = {{{659, 453}, {706, 431}, {1218, 152}}, {{659, 466}, {1218, 309}}};
  const std::vector<GuideLabel> labels = {
      {false, 324, 150}, {false, 316, 140}, {false, 293, 235}, {false, 282, 80}, {true, 799, 70}};
  const auto places = label_places(labels, ground);
  for (const auto& place : places) {
    REQUIRE(place);
    for (const auto& curve : ground.curves)
      for (std::size_t n = 1; n < curve.size(); ++n) CHECK_FALSE(crosses(*place, curve[n - 1], curve[n]));
  }
  for (std::size_t n = 0; n < 4; ++n) CHECK_FALSE(crosses(*places[n], {799, 0}, {799, 1000}));
}

TEST_CASE("a plot without room has no labels") {
  const auto places =
      label_places({{false, 10, 100}, {true, 5, 100}, {false, std::nanf(""), 10}}, {{0, 0, 50, 10}, 15, 2, {}, {}});
  for (const auto& place : places) CHECK_FALSE(place);
}
