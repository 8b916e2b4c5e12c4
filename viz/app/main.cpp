// flashscope-window: the window, or one picture of it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>

#include "sim/error.h"
#include "viz/app/arguments.h"
#include "viz/app/benchmark.h"
#include "viz/app/learn_view.h"
#include "viz/app/offscreen.h"
#include "viz/app/shipped.h"
#include "viz/app/window.h"
#include "viz/cli/lesson_engine.h"
#include "viz/core/snapshot.h"
#include "viz/io/files.h"

namespace flashscope::viz {
namespace {

/// "dir/run.png", 7 → "dir/run-0007.png"
std::string frame_path(const std::string& path, int number) {
  const std::filesystem::path whole(path);
  char digits[16];
  std::snprintf(digits, sizeof digits, "-%04d", number);
  return (whole.parent_path() / (whole.stem().string() + digits + whole.extension().string())).string();
}

LessonLibrary library_of(const Arguments& arguments) {
  return arguments.lessons.empty() ? LessonLibrary::shipped() : LessonLibrary::of_folder(arguments.lessons);
}

void render(const Arguments& arguments, std::vector<Machine> machines, std::vector<Recording> recordings) {
  const RenderOptions& options = *arguments.render;
  AppState state = arguments.state;
  Session session(std::move(machines), std::move(recordings));
  LessonSession lessons(library_of(arguments), make_lesson_engine());
  lessons.request(state.learn.lesson);
  const LessonBook& book = lessons.wait();
  state = settled(state, session, book);
  const Results& results = session.wait();
  const double at = options.at.value_or(state.playback.t > 0 || state.view == View::learn ? -1 : 0.5);
  const auto t = at < 0 ? state.playback.t : static_cast<Picoseconds>(at * static_cast<double>(results.duration));
  state.playback = scrub(state.playback, t, results.duration);
  const float scale =
      options.scale > 0 ? static_cast<float>(options.scale)
                        : scale_for(static_cast<float>(options.width), static_cast<float>(options.height), state.looks);
  Offscreen offscreen(options.width, options.height, scale);
  if (options.frames > 0) {
    for (int n = 0; n < options.frames; ++n) {
      const double share = options.frames == 1 ? 0 : static_cast<double>(n) / (options.frames - 1);
      const auto now = static_cast<Picoseconds>(share * static_cast<double>(results.duration));
      state.playback = scrub(state.playback, now, results.duration);
      write_png(frame_path(options.path, n + 1), offscreen.draw(state, session, results, &book));
    }
  } else {
    write_png(options.path, offscreen.draw(state, session, results, &book));
  }
  if (!options.snapshot.empty()) write_file_atomically(options.snapshot, snapshot_json(state, results, session));
  if (!options.csv.empty()) write_file_atomically(options.csv, seen_as_csv(state, results, session));
}

void run(int argc, const char* const* argv) {
  const auto start = std::chrono::steady_clock::now();
  Arguments arguments = parse_arguments(argc, argv);
  if (!arguments.print.empty()) return write_stdout(arguments.print);
  std::vector<Machine> machines = known_machines(arguments.state.settings.gpu);
  // A machine file is known by the name it gives itself.
  const std::string& gpu = arguments.state.settings.gpu;
  const auto named = [&](const Machine& m) { return m.name == gpu; };
  if (std::none_of(machines.begin(), machines.end(), named)) arguments.state.settings.gpu = machines.back().name;
  if (arguments.benchmark) return write_stdout(table_of(window_costs(machines, shipped_recordings(), start)));
  std::string notice;
  if (!arguments.render)  // a lesson opens where it was left
    arguments.state.learn.progress = load_progress(progress_path(), notice);
  arguments.state.learn = begin_learning(arguments.state.learn, library_of(arguments), arguments.lesson, arguments.step);
  if (arguments.render)
    render(arguments, std::move(machines), shipped_recordings());
  else
    run_window(arguments.state, std::move(machines), shipped_recordings, library_of(arguments),
               arguments.looks_given, arguments.layout_given, notice);
}

}  // namespace
}  // namespace flashscope::viz

int main(int argc, char** argv) {
  try {
    flashscope::viz::run(argc, argv);
    return 0;
  } catch (const flashscope::Error& error) {
    std::fprintf(stderr, "flashscope-window: %s\n", error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "flashscope-window: %s\n", error.what());
    return static_cast<int>(flashscope::ErrorKind::internal);
  }
}
