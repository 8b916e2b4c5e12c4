// Options whose values are text until a parser of ours has looked at them: every refusal names the option and the
// range.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;  // known to options.cpp and run.cpp alone: the library's header costs seconds a file
}

namespace flashscope {

/// A whole number: an optional minus and decimal digits, nothing else ("1e3", "64.0", "0x40", " 64 " are refused).
/// Throws Error(usage) naming `option` and the range.
std::int64_t parse_integer(const std::string& option, const std::string& text, std::int64_t lo, std::int64_t hi);

/// The range as --help shows it, "1..64": in ASCII, because the help's columns count bytes.
std::string range_type(std::int64_t lo, std::int64_t hi);
/// The same as messages write it, "1 … 64"; any other text as it is.
std::string in_words(std::string type);

/// A finite decimal number, as strtod reads it in the C locale, with nothing before or after. Throws Error(usage).
double parse_number(const std::string& option, const std::string& text);

/// One of `names`; throws Error(usage) that lists them.
std::string parse_choice(const std::string& option, const std::string& text, const std::vector<std::string>& names);

/// `separator`-separated parts; an empty text is one empty part.
std::vector<std::string> split(const std::string& text, char separator);

/// Declares an option with one value; given twice is Error(usage). `type` stands in --help and, as the range, in the
/// message when the value is missing. `set` receives the text and may throw. `group` is a heading of --help.
void add_value(CLI::App& app, const std::string& name, const std::string& type, const std::string& description,
               std::function<void(const std::string&)> set, const std::string& group = "Options");

void add_integer(CLI::App& app, const std::string& name, std::int64_t lo, std::int64_t hi,
                 const std::string& description, std::function<void(std::int64_t)> set);

/// A path or a name, taken as it is; the empty text is refused.
void add_text(CLI::App& app, const std::string& name, const std::string& type, const std::string& description,
              std::string& value);

/// An option that may be given more than once; the values keep their order.
void add_texts(CLI::App& app, const std::string& name, const std::string& type, const std::string& description,
               std::vector<std::string>& values);

void add_flag(CLI::App& app, const std::string& name, const std::string& description, std::function<void()> set,
              const std::string& group = "Options");
void add_flag(CLI::App& app, const std::string& name, const std::string& description, bool& value);

/// At most `most` arguments without a dash.
void add_positionals(CLI::App& app, const std::string& name, int most, const std::string& description,
                     std::vector<std::string>& values);

}  // namespace flashscope
