// Options whose values are text until a parser of ours has looked at them: every refusal names the option and the range.
#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace flashscope {

/// A whole number: an optional minus and decimal digits, nothing else ("1e3", "64.0", "0x40", " 64 " are refused).
/// Throws Error(usage) naming `option` and the range.
std::int64_t parse_integer(const std::string& option, const std::string& text, std::int64_t lo, std::int64_t hi);

/// A finite decimal number, as strtod reads it in the C locale, with nothing before or after. Throws Error(usage).
double parse_number(const std::string& option, const std::string& text);

/// One of `names`; throws Error(usage) that lists them.
std::string parse_choice(const std::string& option, const std::string& text, const std::vector<std::string>& names);

/// `separator`-separated parts; an empty text is one empty part.
std::vector<std::string> split(const std::string& text, char separator);

/// Declares an option with one value; given twice is Error(usage). `type` stands in --help and, as the range, in the
/// message when the value is missing. `set` receives the text and may throw.
CLI::Option* add_value(CLI::App& app, const std::string& name, const std::string& type, const std::string& description,
                       std::function<void(const std::string&)> set);

CLI::Option* add_integer(CLI::App& app, const std::string& name, std::int64_t lo, std::int64_t hi,
                         const std::string& description, std::function<void(std::int64_t)> set);

/// A path or a name, taken as it is; the empty text is refused.
CLI::Option* add_text(CLI::App& app, const std::string& name, const std::string& type, const std::string& description,
                      std::string& value);

}  // namespace flashscope
