#include "viz/app/arguments.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <functional>

#include "sim/engine/splits.h"
#include "sim/error.h"
#include "sim/schedule/algorithms.h"
#include "viz/cli/options.h"
#include "viz/cli/problem_options.h"
#include "viz/core/state_token.h"
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

/// An option that says what is drawn, and so cannot stand beside --state; "" when none was given.
std::string problem_option_given(const CLI::App& app) {
  static const std::vector<std::string> how = {
      "--state",  "--render", "--size", "--t",        "--scale", "--dark",    "--safe-colors", "--projector", "--show",
      "--lesson", "--view",   "--csv",  "--snapshot", "--step",  "--lessons", "--lecture",     "--frames"};
  for (const CLI::Option* option : app.get_options())
    if (option->count() > 0 && std::find(how.begin(), how.end(), option->get_name()) == how.end())
      return option->get_name();
  return "";
}

template <class Which>
std::string entry_keys(const std::vector<Entry<Which>>& list) {
  std::string keys;
  for (const auto& entry : list) keys += (keys.empty() ? "" : "|") + std::string(entry.key);
  return keys;
}

template <class Which>
Which chosen(const std::string& option, const std::string& text, const std::vector<Entry<Which>>& list) {
  std::vector<std::string> keys;
  for (const auto& entry : list) keys.emplace_back(entry.key);
  return find_entry(list, parse_choice(option, text, keys))->which;
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
  which.residency = false;
  add_problem_options(app, problem, which);
  std::array<std::optional<std::string>, 2> sides;
  std::optional<Inspector> inspector;
  std::optional<View> view;
  std::vector<std::function<void(Looks&)>> looks;
  const auto look = [&](std::function<void(Looks&)> change) { looks.push_back(std::move(change)); };
  const auto algorithm = [&](std::size_t side) {
    return [&sides, side](const std::string& name) { sides[side] = name; };
  };
  add_value(app, "--left", "NAME", "algorithm on the left (three_pass)", algorithm(0));
  add_value(app, "--right", "NAME", "algorithm on the right (flash_v2)", algorithm(1));
  std::string token;
  add_text(app, "--state", "TOKEN", "a state as Ctrl+C copies it, instead of the problem options", token);
  app.add_flag_callback(
      "--dark", [&] { look([](Looks& l) { l.theme = theme_of(true, is_safe(l.theme)); }); },
      "light text on a dark ground");
  app.add_flag_callback(
      "--safe-colors", [&] { look([](Looks& l) { l.theme = theme_of(is_dark(l.theme), true); }); },
      "a palette for colour-blind eyes");
  app.add_flag_callback(
      "--projector", [&] { look([](Looks& l) { l.projector = true; }); }, "large type, fewer things");
  add_value(app, "--show", entry_keys(inspectors()), "the inspector in front (numbers)",
            [&](const std::string& text) { inspector = chosen("--show", text, inspectors()); });
  add_value(app, "--view", entry_keys(views()), "the view (explore)",
            [&](const std::string& text) { view = chosen("--view", text, views()); });
  add_integer(app, "--frames", 1, 100000, "with --render: that many pictures of the whole run, FILE-0001.png …",
              [&](std::int64_t count) { render.frames = static_cast<int>(count); });
  add_text(app, "--snapshot", "FILE", "with --render: the state and its numbers as JSON", render.snapshot);
  add_text(app, "--csv", "FILE", "with --render: what the inspector shows as CSV", render.csv);
  add_text(app, "--lesson", "NAME", "open a lesson: its name or its number", arguments.lesson);
  add_text(app, "--lessons", "DIR", "a folder of your own lessons instead of those shipped", arguments.lessons);
  bool lecture = false;
  add_integer(app, "--step", 1, 1000, "step of the lesson (where you left it)",
              [&](std::int64_t number) { arguments.step = static_cast<int>(number); });
  add_flag(app, "--lecture", "lessons with every answer shown, and no progress kept", lecture);
  add_flag(app, "--benchmark", "print what frames, the start and a drag cost here, without a display",
           arguments.benchmark);
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
  if (!token.empty()) {
    state = state_of_token(token);
    if (const std::string name = problem_option_given(app); !name.empty())
      throw Error(ErrorKind::usage, "--state says the whole problem: give it without " + name);
  } else {
    settings.problem = problem.problem();
    const Pass pass = settings.problem.pass;
    for (std::size_t side = 0; side < 2; ++side)
      if (sides[side]) settings.algorithms[side] = algorithm_named(*sides[side], pass).name;
    settings.gpu = problem.gpu;
    settings.start = problem.start;
    // Without --br and --bc each rung would bring its own tile; the stages share one, that of the right-hand side.
    const TileShape built = algorithm_named(settings.algorithms[1], pass).default_tile(settings.problem);
    settings.tile = {problem.tile.br ? problem.tile.br : built.br, problem.tile.bc ? problem.tile.bc : built.bc,
                     problem.tile.stages ? problem.tile.stages : built.stages};
    // 0: as many as run at once.
    settings.tile.splits = problem.tile.splits;
    settings.tile.page_size = problem.tile.page_size;
    for (const std::string& name : settings.algorithms)
      if (name == "split_kv" && settings.tile.splits == 0)
        settings.tile.splits = automatic_splits(settings.problem, settings.tile, problem.machine());
    settings.tile.splits = std::max(1, settings.tile.splits);
  }
  if (inspector) state.inspector = *inspector;
  if (view) state.view = *view;
  if (!arguments.lesson.empty()) state.view = View::learn;
  if (lecture) state.learn.lecturer = true;
  for (const auto& change : looks) change(state.looks);
  arguments.looks_given = !looks.empty() || !token.empty();
  // What was asked for is seen, whatever was in front when the window was last closed.
  arguments.layout_given = inspector || view || !arguments.lesson.empty() || !token.empty() || !problem_option_given(app).empty();
  if (!render.path.empty()) arguments.render = render;
  if (render.path.empty() && !(render.snapshot.empty() && render.csv.empty() && render.frames == 0))
    throw Error(ErrorKind::usage, "--snapshot, --csv and --frames go with --render FILE");
  if (render.frames > 0 && render.at)
    throw Error(ErrorKind::usage, "--frames draws the whole run: give it without --t");
  return arguments;
}

}  // namespace flashscope::viz
