// `flashscope simulate --json` for scripts of the page, as Module._flashscope_simulate(text): what the program in the
// browser computes can be held against what a terminal prints.
#include <emscripten.h>

#include <cstring>
#include <exception>
#include <sstream>

#include "viz/cli/problem_options.h"
#include "viz/cli/simulate_json.h"

/// `options`: the problem options without their dashes, one NAME=VALUE a line. Returns the JSON of one line, or "error: "
/// and why; free() it.
extern "C" EMSCRIPTEN_KEEPALIVE char* flashscope_simulate(const char* options) {
  using namespace flashscope;
  std::string text;
  try {
    ProblemOptions problem;
    std::istringstream lines(options);
    for (std::string line; std::getline(lines, line);) {
      const std::size_t equals = line.find('=');
      set_problem_option(problem, line.substr(0, equals), equals == std::string::npos ? "" : line.substr(equals + 1));
    }
    problem.refuse_without_effect();
    const auto schedule = problem.schedule();
    const Machine machine = problem.machine();
    RunOptions run;
    run.start = problem.start;
    const Prediction prediction = simulate(*schedule, machine, run);
    const auto step = training_step(*schedule, machine, run.start, prediction);
    text = json_text(simulate_json(*schedule, machine, run.start, prediction, step), -1);
  } catch (const std::exception& error) {
    text = std::string("error: ") + error.what();
  }
  return strdup(text.c_str());
}
