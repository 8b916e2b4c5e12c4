// `flashscope` alone: finds flashscope-window and becomes it.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "sim/error.h"
#include "viz/cli/command.h"
#include "viz/cli/options.h"

namespace flashscope {
namespace {

constexpr const char* kWindowBinary = "flashscope-window";

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

bool is_program(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

}  // namespace

std::string find_window_binary() {
  std::error_code failed;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (!failed) {
    const std::filesystem::path here = self.parent_path();
    for (const auto& folder : {here, here / ".." / "libexec" / "flashscope", here / ".." / "libexec"})
      if (is_program(folder / kWindowBinary)) return (folder / kWindowBinary).lexically_normal().string();
  }
  if (const char* path = std::getenv("PATH"))
    for (const std::string& folder : split(path, ':'))
      if (!folder.empty() && is_program(std::filesystem::path(folder) / kWindowBinary))
        return (std::filesystem::path(folder) / kWindowBinary).string();
  return "";
}

void start_window() {
  if (!is_set("DISPLAY") && !is_set("WAYLAND_DISPLAY"))
    throw Error(ErrorKind::env,
                "no display: neither DISPLAY nor WAYLAND_DISPLAY is set, so no window can open; "
                "'flashscope compare' shows the same in this terminal");
  const std::string window = find_window_binary();
  if (window.empty())
    throw Error(ErrorKind::env, std::string(kWindowBinary) +
                                    " is neither beside this program nor in its libexec nor on PATH; build it with "
                                    "FLASHSCOPE_WINDOW=ON, or use 'flashscope compare' in this terminal");
  execl(window.c_str(), window.c_str(), static_cast<char*>(nullptr));
  throw Error(ErrorKind::env, window + ": " + std::strerror(errno));
}

}  // namespace flashscope
