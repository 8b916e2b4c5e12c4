// One meaning, one colour: apart in greyscale within a family, and apart for colour-blind eyes.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "viz/render/palette.h"

using namespace flashscope;
using namespace flashscope::viz;

namespace {

using Triple = std::array<double, 3>;
using Matrix = std::array<Triple, 3>;

Triple linear(Color color) {
  Triple rgb{};
  for (std::size_t n = 0; n < 3; ++n) {
    const double c = (color >> (8 * n) & 0xFF) / 255.0;
    rgb[n] = c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  }
  return rgb;
}

Triple times(const Matrix& m, const Triple& v) {
  Triple out{};
  for (std::size_t i = 0; i < 3; ++i) out[i] = std::clamp(m[i][0] * v[0] + m[i][1] * v[1] + m[i][2] * v[2], 0.0, 1.1);
  return out;
}

Triple lab(const Triple& rgb) {
  const Triple xyz = times({{{.4124, .3576, .1805}, {.2126, .7152, .0722}, {.0193, .1192, .9505}}}, rgb);
  const auto f = [](double t) { return t > 0.008856 ? std::cbrt(t) : 7.787 * t + 16.0 / 116; };
  const double x = f(xyz[0] / .95047), y = f(xyz[1]), z = f(xyz[2] / 1.08883);
  return {116 * y - 16, 500 * (x - y), 200 * (y - z)};
}

double distance(const Matrix& eye, Color a, Color b) {
  const Triple p = lab(times(eye, linear(a))), q = lab(times(eye, linear(b)));
  return std::sqrt(std::pow(p[0] - q[0], 2) + std::pow(p[1] - q[1], 2) + std::pow(p[2] - q[2], 2));
}

// Machado, Oliveira, Fernandes 2009, severity 1.0, on linear RGB.
const Matrix kNormal = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
const Matrix kProtan = {
    {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}}};
const Matrix kTritan = {
    {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}}};
const Matrix kDeutan = {
    {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}}};

const std::vector<Theme> kThemes = {Theme::light, Theme::dark, Theme::light_safe, Theme::dark_safe};

std::vector<Color> tensors(const Palette& p) {
  return {p.of(Tensor::Q), p.of(Tensor::K), p.of(Tensor::V), p.of(Tensor::O), p.of(Tensor::S), p.of(Tensor::P)};
}
std::vector<Color> reasons(const Palette& p) { return {p.reasons.begin(), p.reasons.end()}; }

}  // namespace

TEST_CASE("lightness alone tells the members of a family apart") {
  for (Theme theme : kThemes)
    for (std::vector<Color> family : {tensors(palette(theme)), reasons(palette(theme))}) {
      std::sort(family.begin(), family.end(), [](Color a, Color b) { return lightness(a) < lightness(b); });
      for (std::size_t n = 1; n < family.size(); ++n) CHECK(lightness(family[n]) - lightness(family[n - 1]) >= 5.0);
    }
}

TEST_CASE("no two meanings look alike to normal, protanopic and deuteranopic eyes") {
  for (Theme theme : kThemes)
    for (const std::vector<Color>& family : {tensors(palette(theme)), reasons(palette(theme))})
      for (std::size_t a = 0; a < family.size(); ++a)
        for (std::size_t b = a + 1; b < family.size(); ++b)
          for (const Matrix& eye : {kNormal, kProtan, kDeutan}) {
            CAPTURE(a);
            CAPTURE(b);
            CHECK(distance(eye, family[a], family[b]) >= 8);
          }
}

TEST_CASE("the colour-blind palettes keep more distance, for tritanopic eyes as well") {
  for (Theme theme : {Theme::light_safe, Theme::dark_safe})
    for (const auto& [family, least] : {std::pair{tensors(palette(theme)), 25.0}, {reasons(palette(theme)), 11.0}})
      for (std::size_t a = 0; a < family.size(); ++a)
        for (std::size_t b = a + 1; b < family.size(); ++b)
          for (const Matrix& eye : {kNormal, kProtan, kDeutan, kTritan}) {
            CAPTURE(a);
            CAPTURE(b);
            CHECK(distance(eye, family[a], family[b]) >= least);
          }
}

namespace {

struct Meaning {
  int family;  // tensor, reason, side of a plot
  Color color;
};

/// What stands in one picture: tensors, what the SMs do, the two algorithms. Without the greys of idle slots and CTA starts.
std::vector<Meaning> all_meanings(const Palette& p) {
  std::vector<Meaning> list;
  for (Color color : tensors(p)) list.push_back({0, color});
  for (Reason reason : {Reason::hbm, Reason::l2, Reason::smem, Reason::tensor, Reason::fma, Reason::exp, Reason::barrier})
    list.push_back({1, p.of(reason)});
  list.push_back({2, p.left});
  list.push_back({2, p.right});
  return list;
}

}  // namespace

TEST_CASE("a tensor, a reason and a side of a plot never look alike: they stand in one picture") {
  for (Theme theme : kThemes) {
    const std::vector<Meaning> list = all_meanings(palette(theme));
    for (std::size_t a = 0; a < list.size(); ++a)
      for (std::size_t b = a + 1; b < list.size(); ++b) {
        if (list[a].family == list[b].family) continue;
        CAPTURE(static_cast<int>(theme));
        CAPTURE(a);
        CAPTURE(b);
        const bool side = list[a].family == 2 || list[b].family == 2;
        CHECK(distance(kNormal, list[a].color, list[b].color) >= (side ? 19 : 18));
        if (is_safe(theme))
          for (const Matrix& eye : {kProtan, kDeutan, kTritan})
            CHECK(distance(eye, list[a].color, list[b].color) >= (side ? 13 : 10));
      }
  }
}

TEST_CASE("waiting at a barrier, starting and being idle are three greys") {
  for (Theme theme : kThemes) {
    const Palette& p = palette(theme);
    CHECK(distance(kNormal, p.of(Reason::barrier), p.of(Reason::launch)) >= 16);
    CHECK(distance(kNormal, p.of(Reason::launch), p.of(Reason::idle)) >= 10);
  }
}

TEST_CASE("every tensor has a colour, and the two sides of a plot differ in greyscale") {
  for (Theme theme : kThemes) {
    const Palette& p = palette(theme);
    for (Color color : p.tensors) CHECK((color >> 24) == 0xFFu);
    CHECK(std::fabs(lightness(p.left) - lightness(p.right)) >= 12);
    for (Color side : {p.left, p.right}) CHECK(std::fabs(lightness(side) - lightness(p.panel)) > 35);
  }
}

TEST_CASE("text is readable on every ground and every colour") {
  for (Theme theme : kThemes) {
    const Palette& p = palette(theme);
    for (Color ground : {p.window, p.panel, p.box}) {
      CHECK(std::fabs(lightness(p.text) - lightness(ground)) > 60);
      CHECK(std::fabs(lightness(p.text_dim) - lightness(ground)) > 35);
    }
    for (Color color : tensors(p)) CHECK(std::fabs(lightness(p.ink_on(color)) - lightness(color)) > 38);
  }
}

TEST_CASE("colours mix and carry alpha") {
  CHECK(rgb(0x123456) == 0xFF563412u);
  CHECK(mixed(rgb(0xFFFFFF), rgb(0x000000), 0) == rgb(0x000000));
  CHECK(mixed(rgb(0xFFFFFF), rgb(0x000000), 1) == rgb(0xFFFFFF));
  CHECK(with_alpha(rgb(0xFFFFFF), 0.5) == 0x80FFFFFFu);
  CHECK(lightness(rgb(0xFFFFFF)) == doctest::Approx(100));
  CHECK(lightness(rgb(0x000000)) == doctest::Approx(0));
}
