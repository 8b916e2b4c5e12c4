// The page's program: the window, on the page's canvas. What flashscope-window takes on its command line stands in the
// address after "?" (…/?lesson=3&step=2), a whole state after "#".
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "sim/error.h"
#include "viz/app/arguments.h"
#include "viz/app/learn_view.h"
#include "viz/app/platform.h"
#include "viz/app/shipped.h"
#include "viz/app/window.h"
#include "viz/core/state_token.h"
#include "viz/render/ui.h"
#include "viz/web/page.h"

namespace flashscope::viz {
namespace {

/// Each option of the address; one that is not understood is left out and told in `notice`. Parsing costs a tenth of
/// the time to the first frame: without an option it is what parse_arguments() gives for none (tests/window).
Arguments arguments_of_address(std::string& notice) {
  Arguments understood;
  std::vector<std::string> words = {"flashscope-window"};
  std::istringstream lines(taken(page_options()));
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> more = words;
    more.push_back("--" + line);  // "--lesson=3", "--dark"
    try {
      std::vector<const char*> pointers;
      for (const std::string& word : more) pointers.push_back(word.c_str());
      const Arguments parsed = parse_arguments(static_cast<int>(pointers.size()), pointers.data());
      if (parsed.render || !parsed.print.empty() || !parsed.lessons.empty() || parsed.benchmark) {
        notice = "In the address: " + line + " is an option of a terminal";
        continue;
      }
      words = more;
      understood = parsed;
    } catch (const Error& error) {
      notice = "In the address: " + std::string(error.what());
    }
  }
  return understood;
}

/// What this browser keeps of the page; exports go to the same folder.
void restore_files() {
  std::error_code failed;
  if (const char* home = std::getenv("HOME")) std::filesystem::create_directories(home, failed);
  page_restore();
}

/// What loading set aside beside a file that made no sense outlives the page as the file does.
void keep_beside(const std::filesystem::path& file) {
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(file.parent_path(), failed))
    if (entry.path().filename().string().starts_with(file.filename().string() + ".")) page_keep(entry.path().c_str());
}

void run() {
  std::string notice;
  Arguments arguments = arguments_of_address(notice);
  AppState& state = arguments.state;
  LessonLibrary lessons = LessonLibrary::shipped();
  restore_files();
  state.learn.progress = load_progress(progress_path(), notice);  // a lesson opens where it was left
  if (!notice.empty()) keep_beside(progress_path());
  try {
    state.learn = begin_learning(state.learn, lessons, arguments.lesson, arguments.step);
  } catch (const Error& error) {
    notice = "In the address: " + std::string(error.what());
  }
  // A link that says nothing of looks has those of the system; so has a page of which nothing is remembered.
  if (!arguments.looks_given) state.looks.theme = theme_of(platform::prefers_dark(), is_safe(state.looks.theme));
  if (const std::string token = taken(page_wanted_state()); !token.empty()) {
    try {
      state = state_of_token(token, state);
      if (!state.learn.lesson.empty()) lessons.lesson(state.learn.lesson);  // or says which there are
      arguments.looks_given = arguments.layout_given = true;
    } catch (const Error& error) {
      notice = "In the address: " + std::string(error.what());
    }
  }
  const AppState asked = state;
  state = clamp(state);  // as a state that comes from a link is
  std::string names;
  for (const std::string& name : different_fields(asked, state)) names += (names.empty() ? "" : ", ") + name;
  if (notice.empty() && !names.empty())
    notice = "The address asks for more than this page's controls reach, and gets their nearest value: " + names;
  if (const std::string path = spoiled_font(); !path.empty())
    throw Error(ErrorKind::input, "flashscope.data did not arrive whole: " + path +
                                      " in it is cut off, or no font. All files of the folder belong together");
  std::vector<Machine> machines = known_machines(AppState{}.settings.gpu);
  run_window(state, std::move(machines), shipped_recordings, std::move(lessons), arguments.looks_given,
             arguments.layout_given, notice);
}

}  // namespace
}  // namespace flashscope::viz

int main() {
  try {
    flashscope::viz::run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "flashscope: %s\n", error.what());
    page_fail(error.what());
  }
  return 0;
}
