#include "viz/cli/options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <system_error>

#include "sim/error.h"

namespace flashscope {

std::int64_t parse_integer(const std::string& option, const std::string& text, std::int64_t lo, std::int64_t hi) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || value < lo || value > hi)
    throw Error(ErrorKind::usage, option + ": '" + text + "' is not a whole number in " + std::to_string(lo) + " … " +
                                      std::to_string(hi));
  return value;
}

std::string range_type(std::int64_t lo, std::int64_t hi) { return std::to_string(lo) + ".." + std::to_string(hi); }

std::string in_words(std::string type) {
  const std::size_t dots = type.find("..");
  return dots == std::string::npos ? type : type.replace(dots, 2, " … ");
}

double parse_number(const std::string& option, const std::string& text) {
  // strtod alone would also take leading blanks, hexadecimal, "inf" and "nan".
  const bool plain = !text.empty() && text.find_first_not_of("+-.0123456789eE") == std::string::npos;
  char* end = nullptr;
  const double value = plain ? std::strtod(text.c_str(), &end) : 0;
  if (!plain || end != text.c_str() + text.size() || !std::isfinite(value))
    throw Error(ErrorKind::usage, option + ": '" + text + "' is not a finite decimal number");
  return value;
}

std::string parse_choice(const std::string& option, const std::string& text, const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) {
    if (text == name) return text;
    list += (list.empty() ? "" : ", ") + name;
  }
  throw Error(ErrorKind::usage, option + ": '" + text + "' is not one of " + list);
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

void add_value(CLI::App& app, const std::string& name, const std::string& type, const std::string& description,
               std::function<void(const std::string&)> set, const std::string& group) {
  const auto take = [name, type, set = std::move(set)](const CLI::results_t& values) {
    if (values.size() > 1)
      throw Error(ErrorKind::usage, name + ": given twice; it takes one value (" + in_words(type) + ")");
    set(values.front());
    return true;
  };
  // TakeAll hands repeated values to `take`, whose message names the range.
  app.add_option(name, take, description)
      ->type_name(type)
      ->type_size(1)
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(group);
}

void add_integer(CLI::App& app, const std::string& name, std::int64_t lo, std::int64_t hi,
                 const std::string& description, std::function<void(std::int64_t)> set) {
  add_value(app, name, range_type(lo, hi), description,
            [name, lo, hi, set = std::move(set)](const std::string& text) { set(parse_integer(name, text, lo, hi)); });
}

void add_text(CLI::App& app, const std::string& name, const std::string& type, const std::string& description,
              std::string& value) {
  add_value(app, name, type, description, [name, type, &value](const std::string& text) {
    if (text.empty()) throw Error(ErrorKind::usage, name + ": the value is empty; it takes " + type);
    value = text;
  });
}

void add_texts(CLI::App& app, const std::string& name, const std::string& type, const std::string& description,
               std::vector<std::string>& values) {
  app.add_option(name, values, description)->type_name(type)->allow_extra_args(false);
}

void add_flag(CLI::App& app, const std::string& name, const std::string& description, std::function<void()> set,
              const std::string& group) {
  const auto take = [name, set = std::move(set)](std::int64_t times) {
    if (times > 1) throw Error(ErrorKind::usage, name + ": given twice");
    if (times == 1) set();
  };
  app.add_flag_function(name, take, description)->group(group);
}

void add_flag(CLI::App& app, const std::string& name, const std::string& description, bool& value) {
  add_flag(app, name, description, [&value] { value = true; });
}

void add_positionals(CLI::App& app, const std::string& name, int most, const std::string& description,
                     std::vector<std::string>& values) {
  app.add_option(name, values, description)->expected(0, most)->type_name("");
}

}  // namespace flashscope
