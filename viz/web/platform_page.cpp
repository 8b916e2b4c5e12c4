// The window's system is a page: page.js has the other side of each of these.
#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "viz/app/platform.h"
#include "viz/core/worker.h"
#include "viz/web/page.h"

namespace flashscope::viz::platform {

const char* const kGlsl = "#version 300 es";

void require_display() {}

void hint_window(bool) {
  glfwWindowHint(GLFW_CLIENT_API, GLFW_OPENGL_ES_API);
  // The context that index.html has made already: nothing behind the canvas shines through, and pictures are flat.
  for (const int hint : {GLFW_ALPHA_BITS, GLFW_DEPTH_BITS, GLFW_STENCIL_BITS}) glfwWindowHint(hint, 0);
}

std::vector<WindowPlace> monitor_places() { return {}; }  // the canvas is where the page puts it

float least_scale() {
  constexpr double kLeast = 0.85;  // of a CSS pixel: the smallest type is then 11 of them high
  return static_cast<float>(kLeast * page_pixel_ratio());
}

bool prefers_dark() { return page_prefers_dark(); }

void wait_events(double seconds, bool drawing) {
  // While frames are drawn, work gets a part of each; while nothing moves, nearly all the time. Before the first frame none.
  static bool is_seen = false;
  const bool more = std::exchange(is_seen, true) && Worker::lend(std::chrono::milliseconds(drawing ? 10 : 40));
  page_wait(more ? 0 : seconds < 0 ? -1 : 1000 * seconds, drawing);
}

bool has_news() { return page_has_news(); }

void took_key(Command command) {
  if (command != Command::paste_state) page_took_key();  // else the browser would not paste
}

void wants_text(bool typing) { page_wants_text(typing); }

Context context() { return static_cast<Context>(page_context()); }

std::string link_of(const std::string& token) { return taken(page_address()) + "#" + token; }

void show_state(const std::string& token) { page_show_state(token.c_str()); }

std::optional<std::string> wanted_state() {
  char* token = page_wanted_state();
  if (!token) return std::nullopt;
  return taken(token);
}

std::string told() { return taken(page_told()); }

std::string hand_over(const std::string& path) {
  page_download(path.c_str());
  return "Saved as a download: " + std::filesystem::path(path).filename().string();
}

std::string why_no_folder() { return "A page saves one file at a time; flashscope-window has this"; }

std::string keep(const std::string& path) {
  return page_keep(path.c_str()) ? "This browser keeps nothing of this page: progress and looks end with it" : "";
}

std::string ask_for_files() {
  page_ask_for_files();
  return "";
}

std::string why_not_closed() { return "Close the browser's tab to leave"; }

}  // namespace flashscope::viz::platform
