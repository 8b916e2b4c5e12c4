#include "viz/io/toml.h"

#include <algorithm>

#include "sim/error.h"
#include "viz/io/json_numbers.h"

#ifdef FLASHSCOPE_HAS_TOML
// Some broken keys end in an assertion of toml++ 3.3, and without assertions in undefined behaviour. Here its assertions
// throw, in release builds too.
namespace flashscope {
namespace {
struct TomlAssertion {};
[[noreturn]] void fail_toml_assertion() { throw TomlAssertion(); }
}  // namespace
}  // namespace flashscope
#undef NDEBUG
#define TOML_ASSERT(expr) ((expr) ? static_cast<void>(0) : ::flashscope::fail_toml_assertion())
#include <toml++/toml.h>
#endif

namespace flashscope {
namespace {

[[noreturn]] void bad(const std::string& place, const std::string& text) {
  throw Error(ErrorKind::input, place + ": " + text);
}

#ifdef FLASHSCOPE_HAS_TOML
/// Refuses a key of very many parts, a.b.c…: each is a table in the one before, and toml++, which bounds nested values,
/// would nest these without end and run out of stack.
void refuse_long_keys(std::string_view text, const std::string& file, int first_line) {
  constexpr int kMostParts = 100;
  const auto is_part = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '"' || c == '\'';
  };
  int line = first_line, parts = 0;
  bool in_part = false;
  for (char c : text) {
    line += c == '\n';
    if (c == ' ' || c == '\t') continue;
    if (c == '.' && in_part)
      ++parts;
    else if (!is_part(c))
      parts = 0;
    in_part = is_part(c);
    if (parts > kMostParts)
      bad(file + ":" + std::to_string(line), "a key with more than " + std::to_string(kMostParts) + " parts");
  }
}

/// The line, from 0, at which an assertion failed: that of the shortest text that fails.
int line_of_assertion(std::string_view text) {
  int line = 0;
  for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n', end + 1), ++line) {
    try {
      static_cast<void>(toml::parse(text.substr(0, end + 1)));
    } catch (const TomlAssertion&) {
      break;
    } catch (const toml::parse_error&) {  // not closed yet
    }
  }
  return line;
}

Json json_of(const toml::node& node, const std::string& place) {
  if (const auto* table = node.as_table()) {
    Json object = Json::object();
    for (const auto& [key, value] : *table) object[std::string(key.str())] = json_of(value, place);
    return object;
  }
  if (const auto* list = node.as_array()) {
    Json array = Json::array();
    for (const toml::node& item : *list) array.push_back(json_of(item, place));
    return array;
  }
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* integer = node.as_integer()) return integer->get();
  if (const auto* number = node.as_floating_point()) return json_number(number->get());
  if (const auto* truth = node.as_boolean()) return truth->get();
  bad(place, "dates and times mean nothing here");
}
#endif

}  // namespace

int TomlTable::line(const std::string& key) const {
  const auto found = lines.find(key);
  return found == lines.end() ? first_line : found->second;
}

std::string TomlTable::place(const std::string& key) const { return file + ":" + std::to_string(line(key)); }

#ifdef FLASHSCOPE_HAS_TOML
bool can_read_toml() { return true; }

TomlTable parse_toml(std::string_view text, const std::string& file, int first_line) {
  TomlTable result;
  result.file = file;
  result.first_line = first_line;
  const auto line_of = [&](const toml::source_region& region) {
    return first_line + static_cast<int>(region.begin.line) - 1;
  };
  refuse_long_keys(text, file, first_line);
  try {
    const toml::table table = toml::parse(text);
    for (const auto& [key, value] : table) {
      const std::string name(key.str());
      result.lines[name] = line_of(key.source());
      result.values[name] = json_of(value, result.place(name));
    }
  } catch (const toml::parse_error& error) {
    bad(file + ":" + std::to_string(line_of(error.source())), std::string(error.description()));
  } catch (const TomlAssertion&) {
    bad(file + ":" + std::to_string(first_line + line_of_assertion(text)), "a key that is not understood");
  }
  return result;
}
#else
bool can_read_toml() { return false; }

TomlTable parse_toml(std::string_view, const std::string& file, int) {
  throw Error(ErrorKind::unsupported,
              file +
                  ": this build cannot read lessons, because toml++ was not there; install libtomlplusplus-dev and "
                  "build again");
}
#endif

std::string toml_string(const TomlTable& table, const char* key) {
  if (!table.has(key)) bad(table.place(), std::string("'") + key + "' is missing");
  if (!table.values[key].is_string()) bad(table.place(key), std::string("'") + key + "' is not a text in quotes");
  return table.values[key].get<std::string>();
}

std::string toml_string(const TomlTable& table, const char* key, const std::string& otherwise) {
  return table.has(key) ? toml_string(table, key) : otherwise;
}

bool toml_bool(const TomlTable& table, const char* key, bool otherwise) {
  if (!table.has(key)) return otherwise;
  if (!table.values[key].is_boolean()) bad(table.place(key), std::string("'") + key + "' is not true or false");
  return table.values[key].get<bool>();
}

int toml_integer(const TomlTable& table, const char* key, int lo, int hi) {
  if (!table.has(key)) bad(table.place(), std::string("'") + key + "' is missing");
  const Json& value = table.values[key];
  if (!value.is_number_integer() || value.get<std::int64_t>() < lo || value.get<std::int64_t>() > hi)
    bad(table.place(key),
        std::string("'") + key + "' is not a whole number in " + std::to_string(lo) + " … " + std::to_string(hi));
  return value.get<int>();
}

std::vector<std::string> toml_strings(const TomlTable& table, const char* key) {
  if (!table.has(key)) return {};
  const Json& value = table.values[key];
  if (value.is_string()) return {value.get<std::string>()};
  std::vector<std::string> texts;
  for (const Json& item : value.is_array() ? value : Json::array({nullptr})) {
    if (!item.is_string()) bad(table.place(key), std::string("'") + key + "' is not a list of texts in quotes");
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

void check_toml_keys(const TomlTable& table, const std::vector<std::string>& known) {
  for (const auto& [key, value] : table.values.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    std::string names;
    for (const std::string& name : known) names += (names.empty() ? "" : ", ") + name;
    bad(table.place(key), "'" + key + "' is not one of " + names);
  }
}

}  // namespace flashscope
