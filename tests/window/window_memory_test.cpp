// What the window remembers: in the user's folder, never a reason not to start.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support/temporary_folder.h"
#include "viz/app/window_memory.h"

using namespace flashscope::viz;

namespace {

struct Folder {
  flashscope::TemporaryFolder folder;
  std::string file(const std::string& name) const { return folder.path(name); }
};

}  // namespace

TEST_CASE_FIXTURE(Folder, "what is kept comes back, in a folder that is made for it") {
  const WindowMemory memory = {WindowPlace{-1900, 40, 1000, 700}, Looks{Theme::dark_safe, 130, true},
                               "fs1,show=roofline,level=2"};
  const std::string path = file("new/folder/window.txt");
  CHECK(save_window_memory(path, memory).empty());
  std::string notice;
  CHECK(load_window_memory(path, notice) == memory);
  CHECK(notice.empty());
}

TEST_CASE_FIXTURE(Folder, "G01: a size of zero is not kept") {
  const std::string path = file("window.txt");
  CHECK(save_window_memory(path, {WindowPlace{0, 0, 0, 0}, Looks{}}).empty());
  std::string notice;
  CHECK_FALSE(load_window_memory(path, notice).place);
  CHECK(notice.empty());
}

TEST_CASE_FIXTURE(Folder, "G06: garbage is told, set aside and replaced by defaults") {
  for (const char* garbage : {"window 1 2 3", "window 0 0 0 0", "window a b c d", "theme pink", "\x01\xff\xfe binary",
                              "window 0 0 99999999999999999999 5", "layout fs1,heads=4", "layout fs1,show=nothing",
                              "window 0 0 800 600 7"}) {
    const std::string path = file("window.txt");
    std::ofstream(path, std::ios::binary) << garbage;
    std::string notice;
    CAPTURE(garbage);
    CHECK(load_window_memory(path, notice) == WindowMemory{});
    CHECK(notice.find(path) != std::string::npos);
    CHECK(std::filesystem::exists(path + ".bak"));
    CHECK_FALSE(std::filesystem::exists(path));
  }
}

TEST_CASE_FIXTURE(Folder, "G06: a place that cannot be written gives one notice") {
  std::ofstream(file("file")) << "not a folder";
  CHECK_FALSE(save_window_memory(file("file/flashscope/window.txt"), {}).empty());
  CHECK_FALSE(save_window_memory("", {}).empty());
}

TEST_CASE("the first start remembers nothing and says nothing") {
  std::string notice;
  CHECK(load_window_memory("", notice) == WindowMemory{});
  CHECK(load_window_memory("/nonexistent/window.txt", notice) == WindowMemory{});
  CHECK(notice.empty());
}

TEST_CASE("the file is in the configuration folder of the user") {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  const std::string kept = config ? config : "";
  setenv("XDG_CONFIG_HOME", "/some/where", 1);
  CHECK(window_memory_path() == "/some/where/flashscope/window.txt");
  if (config)
    setenv("XDG_CONFIG_HOME", kept.c_str(), 1);
  else
    unsetenv("XDG_CONFIG_HOME");
}

TEST_CASE("a place on a monitor that is gone is moved, one on a left monitor is kept") {
  const std::vector<WindowPlace> one = {{0, 0, 1920, 1080}};
  const std::vector<WindowPlace> two = {{0, 0, 1920, 1080}, {-1920, 0, 1920, 1080}};
  const WindowPlace gone = made_visible({2560, 100, 1280, 720}, one);
  CHECK(gone.x >= 0);
  CHECK(gone.x + gone.width <= 1920);
  CHECK(gone.y >= 0);
  const WindowPlace left = {-1900, 100, 1280, 720};
  CHECK(made_visible(left, two) == left);
  CHECK(made_visible(left, one).x >= 0);
  const WindowPlace above = made_visible({100, -700, 1280, 720}, one);  // its title bar is out of reach
  CHECK(above.y >= 0);
  const WindowPlace huge = made_visible({5000, 5000, 9000, 9000}, one);
  CHECK(huge.width <= 1920);
  CHECK(huge.height <= 1080);
  CHECK(made_visible(left, {}) == left);
}
