// Every view as a picture, beside the one that was looked at: 1280 × 720, 1920 × 1080 and twice as large, light and dark.
// The references are contact sheets of small pictures, so that they stay small and a font's hinting does not matter.
// After a change that was meant, and looked at:  FLASHSCOPE_UPDATE_GOLDEN=1 test_window -tc="golden*"
#include <doctest/doctest.h>
#include <stb_image.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"
#include "viz/app/learn_view.h"
#include "viz/app/offscreen.h"
#include "viz/app/window.h"
#include "viz/cli/lesson_engine.h"
#include "viz/core/lesson_session.h"

using namespace flashscope;
using namespace flashscope::viz;
using namespace flashscope::viz::testing;

namespace {

constexpr int kThumbWidth = 240, kThumbHeight = 135, kThumbsAcross = 4;
// Of 255: what rounding of edges and fonts leaves, and what a panel that moved or lost its colour does not stay below.
constexpr double kMeanTolerance = 2.0, kPixelTolerance = 40, kPixelsBeyond = 0.01;

/// Everything that pictures are made of, without what may change with a recording or a calibration.
struct Gallery {
  Recording recording;
  std::unique_ptr<Session> session;
  AppState state;

  Gallery() {
    state.settings.gpu = small_machine().name;
    state.settings.problem = small_problem(128, 4, true);
    state.settings.tile = {16, 16, 1};
    recording.machine = small_machine().name;
    recording.gpu = "a GPU";
    recording.date = "2026-01-01";
    recording.driver = "1";
    int n = 0;
    for (const char* algorithm : {"three_pass", "flash_v2", "flash_v1", "three_pass_naive"})
      for (int seqlen : {64, 128, 256}) {
        RecordingRow row;
        row.problem = small_problem(seqlen, 4, true);
        row.algorithm = algorithm;
        row.tile = state.settings.tile;
        row.measured.time_us = kernels::Measured<double>::of(20.0 + 7 * ++n);
        row.measured.hbm_read_bytes = kernels::Measured<std::int64_t>::of(3'000'000 + 900'000 * n);
        row.measured.sm_read_bytes = kernels::Measured<std::int64_t>::of(5'000'000 + 900'000 * n);
        put_row(recording, row);
      }
    session = std::make_unique<Session>(std::vector<Machine>{small_machine()}, std::vector<Recording>{recording});
  }
};

const char* kLesson = R"(+++
id = "gallery"
number = 1
title = "A lesson of the gallery"
summary = "One step"
+++

```run small
algorithm = "flash_v2"
seqlen = 128
heads = 2
head-dim = 32
br = 16
bc = 16
```

## What is seen

The stage beside this text runs [[K]] and [[V]] past a tile of [[Q]]. A value: {{ small.sm_read_bytes }} bytes.

```show
runs = ["small"]
operation = "scores"
```
)";

std::vector<AppState> views_to_draw(const AppState& start) {
  std::vector<AppState> list;
  const auto add = [&](auto change) {
    list.push_back(start);
    change(list.back());
  };
  for (const auto& inspector : inspectors()) add([&](AppState& s) { s.inspector = inspector.which; });
  for (AppState& s : list) s.sweep = {SweepOver::bc, SweepShow::sm_bytes};
  add([](AppState& s) { s.stage_level = 0; });
  add([](AppState& s) { s.stage_level = kWholeGpu; });
  add([](AppState& s) { s.tall_timeline = true; });
  add([](AppState& s) { s.looks.projector = true; });
  add([](AppState& s) { s.settings.problem.pass = Pass::backward; });
  add([](AppState& s) {
    s.settings.problem.causal = false;
    s.settings.algorithms[1] = "split_kv";
    s.settings.tile.splits = 4;
  });
  add([](AppState& s) { s.view = View::validate; });
  add([](AppState& s) {
    s.view = View::learn;
    s.learn.lesson = "gallery";
  });
  add([](AppState& s) { s.show_help = true; });
  return list;
}

/// What a small window has room for: one stage and Numbers, one SM beside a wide inspector, tiles without numbers.
std::vector<AppState> views_of_small_windows(const AppState& start) {
  std::vector<AppState> list;
  const auto add = [&](auto change) {
    list.push_back(start);
    change(list.back());
  };
  add([](AppState&) {});
  add([](AppState& s) { s.inspector = Inspector::softmax; });
  add([](AppState& s) { s.inspector = Inspector::roofline; });
  add([](AppState& s) { s.settings.algorithms[0] = "flash_v1"; });
  add([](AppState& s) {
    s.settings.problem.pass = Pass::backward;
    s.stage_level = 0;
  });
  add([](AppState& s) {
    set_block_mask(s.settings.problem, {"random", 25, 7, 16});
    s.stage_level = kWholeGpu;
  });
  add([](AppState& s) {
    s.settings.problem.causal = false;
    pack_sequences(s.settings.problem, 3);
  });
  add([](AppState& s) { s.show_help = true; });
  return list;
}

/// The mean of the pixels that fall on each of the small picture.
Picture shrunk(const Picture& p, int width, int height) {
  Picture small{width, height, std::vector<std::uint8_t>(static_cast<std::size_t>(width) * height * 3)};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < 3; ++c) {
        long sum = 0, count = 0;
        for (int v = y * p.height / height; v < (y + 1) * p.height / height; ++v)
          for (int u = x * p.width / width; u < (x + 1) * p.width / width; ++u, ++count)
            sum += p.rgb[(static_cast<std::size_t>(v) * p.width + u) * 3 + c];
        small.rgb[(static_cast<std::size_t>(y) * width + x) * 3 + c] = static_cast<std::uint8_t>(sum / count);
      }
  return small;
}

void paste(Picture& sheet, const Picture& thumb, std::size_t place) {
  const std::size_t left = place % kThumbsAcross * kThumbWidth, top = place / kThumbsAcross * kThumbHeight;
  for (std::size_t y = 0; y < kThumbHeight; ++y)
    std::copy_n(thumb.rgb.begin() + static_cast<std::ptrdiff_t>(y * kThumbWidth * 3), kThumbWidth * 3,
                sheet.rgb.begin() + static_cast<std::ptrdiff_t>(((top + y) * sheet.width + left) * 3));
}

/// Draws views at one size in one theme and holds each beside its reference. `small_scale`: of windows that are small
/// for it; 0: what the size asks for.
void check_sheet(int width, int height, Theme theme, float small_scale = 0) {
  const std::string name = std::to_string(width) + "x" + std::to_string(height) + (is_dark(theme) ? "-dark" : "-light");
  CAPTURE(name);
  Gallery gallery;
  gallery.state.looks.theme = theme;
  const TemporaryFolder folder;
  std::vector<AppState> states = small_scale > 0 ? views_of_small_windows(gallery.state) : views_to_draw(gallery.state);
  std::ofstream(folder.path("01-gallery.md")) << kLesson;
  LessonSession lessons(LessonLibrary::of_folder(folder.folder().string()), make_lesson_engine());
  lessons.request("gallery");
  const LessonBook book = lessons.wait();

  const int down = (static_cast<int>(states.size()) + kThumbsAcross - 1) / kThumbsAcross;
  Picture sheet{kThumbWidth * kThumbsAcross, kThumbHeight * down, {}};
  sheet.rgb.assign(static_cast<std::size_t>(sheet.width) * sheet.height * 3, 0);
  std::vector<Picture> thumbs;
  std::unique_ptr<Offscreen> offscreen;
  float scale = 0;
  for (std::size_t n = 0; n < states.size(); ++n) {
    AppState& s = states[n];
    s = settled(s, *gallery.session, book);
    const Results& results = gallery.session->wait();
    if (s.view != View::learn) s.playback.t = results.duration * 2 / 5;
    const float wanted =
        small_scale > 0 ? small_scale : scale_for(static_cast<float>(width), static_cast<float>(height), s.looks);
    if (!offscreen || wanted != scale) {
      offscreen.reset();  // one context of ImGui at a time
      offscreen = std::make_unique<Offscreen>(width, height, wanted);
    }
    scale = wanted;
    thumbs.push_back(shrunk(offscreen->draw(s, *gallery.session, results, &book), kThumbWidth, kThumbHeight));
    paste(sheet, thumbs.back(), n);
  }

  const std::string path = test_data("window/" + name + ".png");
  if (std::getenv("FLASHSCOPE_UPDATE_GOLDEN")) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    write_png(path, sheet);
  }
  int w = 0, h = 0, channels = 0;
  unsigned char* pixels = stbi_load(path.c_str(), &w, &h, &channels, 3);
  REQUIRE_MESSAGE(pixels != nullptr, path, " cannot be read");
  REQUIRE(w == sheet.width);
  REQUIRE(h == sheet.height);
  Picture reference{w, h, {pixels, pixels + static_cast<std::size_t>(w) * h * 3}};
  stbi_image_free(pixels);
  bool all_well = true;
  for (std::size_t n = 0; n < states.size(); ++n) {
    double sum = 0, beyond = 0;
    const std::size_t left = n % kThumbsAcross * kThumbWidth, top = n / kThumbsAcross * kThumbHeight;
    for (std::size_t y = 0; y < kThumbHeight; ++y)
      for (std::size_t x = 0; x < kThumbWidth * 3; ++x) {
        const double off = std::fabs(double(thumbs[n].rgb[y * kThumbWidth * 3 + x]) -
                                     reference.rgb[((top + y) * w + left) * 3 + x]);
        sum += off;
        beyond += off > kPixelTolerance;
      }
    constexpr double kValues = kThumbWidth * kThumbHeight * 3.0;
    CAPTURE(n);
    CHECK(sum / kValues < kMeanTolerance);
    CHECK(beyond / kValues < kPixelsBeyond);
    all_well = all_well && sum / kValues < kMeanTolerance && beyond / kValues < kPixelsBeyond;
  }
  if (!all_well) {
    const std::string seen = (std::filesystem::temp_directory_path() / ("flashscope-" + name + ".png")).string();
    write_png(seen, sheet);
    MESSAGE("what was drawn is in ", seen, "; where it is what is meant: FLASHSCOPE_UPDATE_GOLDEN=1");
  }
}

}  // namespace

TEST_CASE("golden: every view at 1280 x 720, light and dark") {
  for (Theme theme : {Theme::light, Theme::dark}) check_sheet(1280, 720, theme);
}
TEST_CASE("golden: every view at 1920 x 1080, light and dark") {
  for (Theme theme : {Theme::light, Theme::dark}) check_sheet(1920, 1080, theme);
}
TEST_CASE("golden: every view at twice the size, light and dark") {
  for (Theme theme : {Theme::light, Theme::dark}) check_sheet(2560, 1440, theme);
}
TEST_CASE("golden: views of a window that is small for its type, 960 × 540 units, and of a narrow one") {
  check_sheet(960, 540, Theme::light, 1);
  check_sheet(460, 990, Theme::dark, 1);
}
