#include "viz/app/arguments.h"

#include <CLI/CLI.hpp>

#include "sim/error.h"
#include "sim/schedule/algorithms.h"
#include "viz/cli/options.h"
#include "viz/cli/problem_options.h"
#include "viz/io/version.h"

namespace flashscope::viz {
namespace {

/// "1280x720"
void set_size(RenderOptions& render, const std::string& text) {
  const auto parts = split(text, 'x');
  if (parts.size() != 2) throw Error(ErrorKind::usage, "--size: '" + text + "' is not WIDTHxHEIGHT, as in 1280x720");
  render.width = static_cast<int>(parse_integer("--size", parts[0], 1, 8192));
  render.height = static_cast<int>(parse_integer("--size", parts[1], 1, 8192));
}

double number_between(const std::string& option, const std::string& text, double lo, double hi) {
  const double value = parse_number(option, text);
  if (!(value >= lo && value <= hi))
    throw Error(ErrorKind::usage,
                option + ": " + text + " is outside " + std::to_string(lo) + " … " + std::to_string(hi));
  return value;
}

}  // namespace

Arguments parse_arguments(int argc, const char* const* argv) {
  CLI::App app("FlashScope " + std::string(version()) + ": how attention moves data on a GPU, in a window.",
               "flashscope-window");
  app.set_version_flag("--version", version_line());
  Arguments arguments;
  AppState& state = arguments.state;
  RenderOptions render;

  ProblemOptions problem;
  ProblemOptionSet which;
  which.algorithm = false;  // two of them, below
  add_problem_options(app, problem, which);
  const auto algorithm = [&](std::size_t side) {
    return [&state, side](const std::string& name) { state.settings.algorithms[side] = name; };
  };
  add_value(app, "--left", "NAME", "algorithm on the left (three_pass)", algorithm(0));
  add_value(app, "--right", "NAME", "algorithm on the right (flash_v2)", algorithm(1));
  app.add_flag_callback(
      "--dark", [&state] { state.theme = Theme::dark; }, "light text on a dark ground");
  add_text(app, "--render", "FILE", "draw one picture to a PNG, without a display", render.path);
  add_value(app, "--size", "WxH", "of the picture (1280x720)",
            [&](const std::string& text) { set_size(render, text); });
  add_value(app, "--t", "0 … 1", "when: share of the longer run (0.5)",
            [&](const std::string& text) { render.at = number_between("--t", text, 0, 1); });
  add_value(app, "--scale", "0.25 … 8", "pixels per unit (from the size)",
            [&](const std::string& text) { render.scale = number_between("--scale", text, 0.25, 8); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    arguments.print = app.help();
    return arguments;
  } catch (const CLI::CallForVersion& e) {
    arguments.print = std::string(e.what()) + "\n";
    return arguments;
  } catch (const CLI::ParseError& e) {
    throw Error(ErrorKind::usage, std::string(e.what()) + "; see flashscope-window --help");
  }

  Settings& settings = state.settings;
  settings.problem = problem.problem();
  settings.gpu = problem.gpu;
  settings.start = problem.start;
  // Without --br and --bc each rung would bring its own tile; the stages share one, that of the right-hand side.
  for (const std::string& name : settings.algorithms) algorithm_named(name);
  const TileShape built = algorithm_named(settings.algorithms[1]).default_tile(settings.problem);
  settings.tile = {problem.tile.br ? problem.tile.br : built.br, problem.tile.bc ? problem.tile.bc : built.bc,
                   problem.tile.stages ? problem.tile.stages : built.stages};
  if (!render.path.empty()) arguments.render = render;
  return arguments;
}

}  // namespace flashscope::viz
