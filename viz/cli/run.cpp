// From arguments to an exit code.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <new>

#include "sim/error.h"
#include "viz/cli/command.h"
#include "viz/cli/options.h"
#include "viz/io/version.h"

namespace flashscope {
namespace {

std::string usage_of(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return "see flashscope " + (chosen.empty() ? std::string() : chosen.front()->get_name() + " ") + "--help";
}

/// The parser's complaint in our words: the option and what it takes.
Error usage_error(const CLI::ParseError& error, const CLI::App& app) {
  const std::string text = error.what();
  const auto chosen = app.get_subcommands();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && !chosen.empty()) {
    const std::string name = text.substr(0, text.find(':'));
    if (const CLI::Option* option = chosen.front()->get_option_no_throw(name))
      return Error(ErrorKind::usage, name + ": the value is missing; it takes " + in_words(option->get_type_name()));
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const auto extras = app.remaining(true);
    const std::string first = extras.empty() ? text : extras.front();
    const bool is_option = first.size() > 1 && first[0] == '-';
    if (chosen.empty() && !is_option) {
      std::string names;
      for (const Command& command : commands()) names += std::string(names.empty() ? "" : ", ") + command.name;
      return Error(ErrorKind::usage, "'" + first + "' is not one of the commands " + names);
    }
    return Error(ErrorKind::usage, (is_option ? first.substr(0, first.find('=')) + ": unknown option; "
                                              : "'" + first + "': one argument too many; ") +
                                       usage_of(app));
  }
  return Error(ErrorKind::usage, text + "; " + usage_of(app));
}

void parse_and_run(std::vector<std::string> arguments, Context& context) {
  CLI::App app("FlashScope " + std::string(version()) +
                   ": how attention moves data on a GPU, predicted and measured.\nWithout a command: the window.",
               "flashscope");
  app.set_version_flag("--version", version_line());
  app.require_subcommand(0, 1);
  app.get_formatter()->column_width(34);
  app.get_formatter()->label("SUBCOMMAND", "COMMAND");
  app.get_formatter()->label("SUBCOMMANDS", "COMMANDS");
  std::map<const CLI::App*, Action> actions;
  for (const Command& command : commands()) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    sub->group("Commands");
    sub->footer(command.examples);
    actions[sub] = command.declare(*sub);
  }
  app.footer("Options of a command: flashscope COMMAND --help");

  // "--seqlen= 64" would take the next word for the value.
  for (const std::string& argument : arguments)
    if (argument.size() > 3 && argument.compare(0, 2, "--") == 0 && argument.find('=') == argument.size() - 1)
      throw Error(ErrorKind::usage, argument.substr(0, argument.size() - 1) + ": the value after '=' is missing");

  std::reverse(arguments.begin(), arguments.end());  // the parser takes them from the back
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    return context.print(app.help());
  } catch (const CLI::CallForVersion& version_text) {
    return context.print(std::string(version_text.what()) + "\n");
  } catch (const CLI::ParseError& error) {
    throw usage_error(error, app);
  }
  const auto chosen = app.get_subcommands();
  if (chosen.empty()) return start_window();
  actions.at(chosen.front())(context);
}

/// One line, whatever the text.
std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  return text;
}

}  // namespace

int run(const std::vector<std::string>& arguments, Context& context) {
  try {
    parse_and_run(arguments, context);
    return 0;
  } catch (const Error& error) {
    context.note("flashscope: " + one_line(error.what()) + "\n");
    return error.exit_code();
  } catch (const std::bad_alloc&) {
    context.note("flashscope: out of memory; reduce batch, heads, seqlen or head_dim\n");
    return static_cast<int>(ErrorKind::resource);
  } catch (const std::exception& error) {
    context.note("flashscope: internal error: " + one_line(error.what()) + "\n");
    return static_cast<int>(ErrorKind::internal);
  }
}

}  // namespace flashscope
