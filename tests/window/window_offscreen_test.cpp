// Pictures through the off-screen renderer: right size, right way up, not blank, the same each time.
#include <GL/gl.h>
#include <doctest/doctest.h>
#include <stb_image.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "sim/error.h"
#include "support.h"
#include "tests/support/temporary_folder.h"
#include "viz/app/offscreen.h"
#include "viz/app/window.h"
#include "viz/app/workspace.h"

using namespace flashscope;
using namespace flashscope::viz;
using namespace flashscope::viz::testing;

namespace {

struct Scenery {
  Session session{{small_machine()}, {}};
  AppState state;
  Results results;
  Scenery() {
    state.settings.gpu = small_machine().name;
    state.settings.problem = small_problem();
    state.settings.tile = {16, 16, 1};
    session.request(state.settings);
    results = session.wait();
    state.playback.t = results.duration / 3;
  }
  Picture draw(int width, int height) {
    Offscreen offscreen(width, height, scale_for(static_cast<float>(width), static_cast<float>(height)));
    return offscreen.draw(state, session, results);
  }
};

Color pixel(const Picture& p, int x, int y) {
  const std::size_t at = (static_cast<std::size_t>(y) * p.width + x) * 3;
  return rgb(static_cast<std::uint32_t>(p.rgb[at] << 16 | p.rgb[at + 1] << 8 | p.rgb[at + 2]));
}

std::size_t colors_of(const Picture& p) {
  std::set<Color> colors;
  for (int y = 0; y < p.height; y += 3)
    for (int x = 0; x < p.width; x += 3) colors.insert(pixel(p, x, y));
  return colors.size();
}

}  // namespace

TEST_CASE_FIXTURE(Scenery, "G04: size, corner, contents, in both themes and several sizes") {
  for (Theme theme : {Theme::light, Theme::dark})
    for (const auto& [w, h] : {std::pair{1280, 720}, {1920, 1080}, {1283, 717}, {1366, 768}}) {
      state.looks.theme = theme;
      const Picture p = draw(w, h);
      CHECK(p.width == w);
      CHECK(p.height == h);
      CHECK(p.rgb.size() == static_cast<std::size_t>(w) * h * 3);
      CHECK(pixel(p, 0, 0) == palette(theme).panel);          // the top bar
      CHECK(pixel(p, w - 1, h - 1) == palette(theme).panel);  // the timeline
      CHECK(colors_of(p) > 100);
    }
}

TEST_CASE("G04: red in the first rows and columns, blue in the last, and nothing leans, whatever the width") {
  for (const auto& [w, h] : {std::pair{1280, 720}, {1920, 1080}, {2560, 1440}, {1366, 768}, {1283, 717}}) {
    const Offscreen context(w, h, 1);
    const auto paint = [](int x, int y, int width, int height, float red, float blue) {
      glEnable(GL_SCISSOR_TEST);
      glScissor(x, y, width, height);
      glClearColor(red, 0, blue, 1);
      glClear(GL_COLOR_BUFFER_BIT);
    };
    paint(0, 0, w, h, 0, 0);
    paint(0, h - 10, 10, 10, 1, 0);      // OpenGL counts rows from below
    paint(w - 10, 0, 10, 10, 0, 1);
    paint(w / 2, 0, 1, h, 1, 1);
    const Picture p = read_framebuffer(w, h);
    for (int y = 0; y < h; ++y)
      for (int x = 0; x < w; ++x) {
        const Color right = y < 10 && x < 10              ? rgb(0xFF0000)
                            : y >= h - 10 && x >= w - 10 ? rgb(0x0000FF)
                            : x == w / 2                  ? rgb(0xFF00FF)
                                                          : rgb(0);
        if (pixel(p, x, y) != right) FAIL("at ", x, ", ", y, " of ", w, " x ", h);
      }
  }
}

TEST_CASE_FIXTURE(Scenery, "the stage shows the colours of its tensors, and of those it keeps only") {
  state.playback.t = results.duration;
  const Picture p = draw(1280, 720);
  const auto shown = [&](Tensor tensor, int from, int to) {
    const Color done = mixed(palette(state.looks.theme).of(tensor), palette(state.looks.theme).box, 0.62);
    for (int y = 100; y < 270; ++y)
      for (int x = from; x < to; ++x)
        if (pixel(p, x, y) == done) return true;
    return false;
  };
  for (Tensor tensor : {Tensor::Q, Tensor::K, Tensor::V, Tensor::S, Tensor::P, Tensor::O}) {
    CAPTURE(name_of(tensor));
    CHECK(shown(tensor, 200, 580));
  }
  CHECK(shown(Tensor::Q, 590, 970));
  CHECK_FALSE(shown(Tensor::P, 590, 970));
}

TEST_CASE_FIXTURE(Scenery, "the same state gives the same picture, whatever was drawn before") {
  const Picture first = draw(640, 360);
  Offscreen offscreen(640, 360, 0.5f);
  for (int step = 0; step < 5; ++step) {
    AppState other = state;
    other.playback.t = results.duration * step / 5;
    other.looks.theme = step % 2 ? Theme::dark : Theme::light;
    offscreen.draw(other, session, results);
  }
  CHECK(offscreen.draw(state, session, results).rgb == first.rgb);
}

TEST_CASE_FIXTURE(Scenery, "maps above 64 x 64 tiles are drawn too") {
  state.settings.problem = small_problem(1040, 1);
  state.settings.stage_seqlen = 4096;
  state.settings.tile = {8, 8, 1};
  AppState large = state;
  session.request(large.settings);
  results = session.wait();
  state.playback.t = results.duration;
  REQUIRE(results.stage[0]);
  CHECK(results.stage[0]->score_grid().down > 64);
  CHECK(colors_of(draw(1280, 720)) > 100);
}

TEST_CASE_FIXTURE(Scenery, "a written PNG reads back as the picture; a failed write names path and reason") {
  const Picture p = draw(321, 123);
  const TemporaryFolder temporary;
  const std::filesystem::path& folder = temporary.folder();
  const std::string path = (folder / "picture.png").string();
  write_png(path, p);
  int w = 0, h = 0, channels = 0;
  unsigned char* pixels = stbi_load(path.c_str(), &w, &h, &channels, 3);
  REQUIRE(pixels != nullptr);
  CHECK(w == 321);
  CHECK(h == 123);
  CHECK(std::equal(p.rgb.begin(), p.rgb.end(), pixels));
  stbi_image_free(pixels);
  for (const std::string& bad : {(folder / "missing" / "x.png").string(), folder.string()}) {
    try {
      write_png(bad, p);
      FAIL("written to " << bad);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::io);
      CHECK(std::string(error.what()).find(bad) != std::string::npos);
    }
  }
}

TEST_CASE("G02: without a display the window is refused in one message that names the way out") {
  const char* display = std::getenv("DISPLAY");
  const char* wayland = std::getenv("WAYLAND_DISPLAY");
  const std::string kept_display = display ? display : "", kept_wayland = wayland ? wayland : "";
  unsetenv("DISPLAY");
  unsetenv("WAYLAND_DISPLAY");
  try {
    run_window({}, {small_machine()}, [] { return std::vector<Recording>(); }, LessonLibrary::shipped(), true, true);
    FAIL("a window without a display");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::env);
    CHECK(error.exit_code() == 4);
    CHECK(std::string(error.what()).find("DISPLAY") != std::string::npos);
    CHECK(std::string(error.what()).find("flashscope compare") != std::string::npos);
  }
  if (display) setenv("DISPLAY", kept_display.c_str(), 1);
  if (wayland) setenv("WAYLAND_DISPLAY", kept_wayland.c_str(), 1);
}
