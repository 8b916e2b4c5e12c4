#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>

#include <cstdlib>

#include "sim/error.h"
#include "viz/app/platform.h"

namespace flashscope::viz::platform {
namespace {

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

}  // namespace

const char* const kGlsl = "#version 330 core";

void require_display() {
  if (!is_set("DISPLAY") && !is_set("WAYLAND_DISPLAY"))
    throw Error(ErrorKind::env,
                "no display: neither DISPLAY nor WAYLAND_DISPLAY is set, so no window can open; 'flashscope compare' "
                "shows the same in this terminal, 'flashscope-window --render FILE.png' draws it to a file");
}

void hint_window(bool placed) {
  glfwWindowHint(GLFW_CONTEXT_VERSION_MAJOR, 3);
  glfwWindowHint(GLFW_CONTEXT_VERSION_MINOR, 3);
  glfwWindowHint(GLFW_OPENGL_PROFILE, GLFW_OPENGL_CORE_PROFILE);
  glfwWindowHint(GLFW_OPENGL_FORWARD_COMPAT, GLFW_TRUE);
  if (!placed) glfwWindowHint(GLFW_SCALE_TO_MONITOR, GLFW_TRUE);
}

std::vector<WindowPlace> monitor_places() {
  int count = 0;
  GLFWmonitor** monitors = glfwGetMonitors(&count);
  std::vector<WindowPlace> places;
  for (int n = 0; n < count; ++n) {
    WindowPlace p;
    glfwGetMonitorWorkarea(monitors[n], &p.x, &p.y, &p.width, &p.height);
    places.push_back(p);
  }
  return places;
}

float least_scale() { return 0; }

bool prefers_dark() { return false; }  // no question that all desktops answer

void wait_events(double seconds, bool) {
  if (seconds < 0)
    glfwWaitEvents();
  else
    glfwWaitEventsTimeout(seconds);
}

bool has_news() { return false; }
std::string told() { return ""; }
void took_key(Command) {}
void wants_text(bool) {}
Context context() { return Context::good; }
std::string link_of(const std::string& token) { return token; }
void show_state(const std::string&) {}
std::optional<std::string> wanted_state() { return std::nullopt; }
std::string hand_over(const std::string& path) { return "Saved " + path; }
std::string why_no_folder() { return ""; }
std::string keep(const std::string&) { return ""; }
std::string ask_for_files() { return "Drop a lesson (.md) or a machine description (.json) on this window"; }
std::string why_not_closed() { return ""; }

}  // namespace flashscope::viz::platform
