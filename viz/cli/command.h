// The commands of the binary `flashscope`: a visible list, one file a command.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "viz/cli/context.h"

namespace CLI {
class App;
}

namespace flashscope {

/// Runs a command whose options have been parsed. Returns the exit code 0, or throws Error.
using Action = std::function<void(Context&)>;

struct Command {
  const char* name;
  const char* summary;   // one line of `flashscope --help`
  const char* examples;  // end of `flashscope NAME --help`
  /// Declares the command's options on `app`. The action owns the values they are parsed into.
  Action (*declare)(CLI::App& app);
};

const std::vector<Command>& commands();

Action declare_compare(CLI::App&);
Action declare_simulate(CLI::App&);
Action declare_attend(CLI::App&);
Action declare_measure(CLI::App&);
Action declare_validate(CLI::App&);
Action declare_calibrate(CLI::App&);
Action declare_lesson(CLI::App&);
Action declare_bench(CLI::App&);
Action declare_doctor(CLI::App&);

/// `flashscope` with nothing behind it. Replaces this process by the window; returns only by throwing Error(env).
void start_window();
/// Where flashscope-window is: beside this binary, in its libexec, or on PATH; "" when nowhere.
std::string find_window_binary();

/// One run of the program: parses, runs, turns errors into one line on `note` and the exit code of their kind
/// (sim/error.h).
int run(const std::vector<std::string>& arguments, Context& context);

}  // namespace flashscope
