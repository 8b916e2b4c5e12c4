#include "viz/app/window_memory.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "sim/error.h"
#include "viz/core/state_token.h"
#include "viz/io/files.h"

namespace flashscope::viz {
namespace {

constexpr int kLargest = 32768;  // pixels: a larger number in the file is garbage

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// "window X Y WIDTH HEIGHT", "looks TOKEN" and "layout TOKEN", a line each; "theme light|dark" as older versions wrote it. False for
/// anything else.
bool parse(const std::string& text, WindowMemory& memory) {
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string key, theme, rest;
    words >> key;
    if (key == "window") {
      WindowPlace p;
      if (!(words >> p.x >> p.y >> p.width >> p.height) || words >> rest) return false;
      if (std::abs(p.x) > kLargest || std::abs(p.y) > kLargest || p.width < 1 || p.width > kLargest || p.height < 1 ||
          p.height > kLargest)
        return false;
      memory.place = p;
    } else if (key == "theme") {
      if (!(words >> theme) || words >> rest || (theme != "light" && theme != "dark")) return false;
      Looks looks;
      looks.theme = theme == "dark" ? Theme::dark : Theme::light;
      memory.looks = looks;
    } else if (key == "looks") {
      if (!(words >> theme) || words >> rest) return false;
      try {
        memory.looks = looks_of_token(theme);
      } catch (const Error&) {
        return false;
      }
    } else if (key == "layout") {
      if (!(words >> memory.layout) || words >> rest) return false;
      try {
        with_layout({}, memory.layout);
      } catch (const Error&) {
        return false;
      }
    } else if (!key.empty()) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::string window_memory_path() {
  if (const std::string folder = variable("XDG_CONFIG_HOME"); !folder.empty()) return folder + "/flashscope/window.txt";
  if (const std::string home = variable("HOME"); !home.empty()) return home + "/.config/flashscope/window.txt";
  return "";
}

WindowMemory load_window_memory(const std::string& path, std::string& notice) {
  std::error_code failed;
  if (path.empty() || !std::filesystem::exists(path, failed)) return {};
  WindowMemory memory;
  bool understood = false;
  try {
    understood = parse(read_text_file(path), memory);
  } catch (const Error&) {
    understood = false;
  }
  if (understood) return memory;
  std::filesystem::rename(path, path + ".bak", failed);
  notice = path + " could not be understood; " + (failed ? "it was left as it is" : "it was kept as " + path + ".bak");
  return {};
}

std::string save_window_memory(const std::string& path, const WindowMemory& memory) {
  if (path.empty()) return "The window's place is not kept: neither XDG_CONFIG_HOME nor HOME is set";
  std::string text;
  if (memory.place && memory.place->width > 0 && memory.place->height > 0)
    text += "window " + std::to_string(memory.place->x) + " " + std::to_string(memory.place->y) + " " +
            std::to_string(memory.place->width) + " " + std::to_string(memory.place->height) + "\n";
  if (memory.looks) text += "looks " + looks_token(*memory.looks) + "\n";
  if (!memory.layout.empty()) text += "layout " + memory.layout + "\n";
  try {
    std::error_code failed;  // the write below says what is wrong
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
    write_file_atomically(path, text);
  } catch (const Error& error) {
    return std::string("The window's place is not kept: ") + error.what();
  }
  return "";
}

WindowPlace made_visible(WindowPlace place, const std::vector<WindowPlace>& monitors) {
  constexpr int kGrip = 120, kTitle = 40;  // pixels of the title bar that must be on a monitor
  if (monitors.empty()) return place;
  for (const WindowPlace& m : monitors) {
    const int across = std::min(place.x + place.width, m.x + m.width) - std::max(place.x, m.x);
    const int down = std::min(place.y + kTitle, m.y + m.height) - std::max(place.y, m.y);
    if (across >= std::min(kGrip, place.width) && down >= kTitle / 2) return place;
  }
  const WindowPlace& first = monitors.front();
  place.width = std::min(place.width, first.width);
  place.height = std::min(place.height, first.height);
  place.x = first.x + (first.width - place.width) / 2;
  place.y = first.y + (first.height - place.height) / 2;
  return place;
}

}  // namespace flashscope::viz
