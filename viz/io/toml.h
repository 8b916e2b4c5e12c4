// TOML as lessons use it: one table, read by toml++ and handed on as JSON values with the line each key stands in.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "viz/io/json_numbers.h"

namespace flashscope {

struct TomlTable {
  std::string file;
  int first_line = 1;                // of the table's text in `file`
  Json values = Json::object();      // strings, integers, floats, booleans, lists, tables
  std::map<std::string, int> lines;  // of the keys at the top

  bool has(const char* key) const { return values.contains(key); }
  /// Of the key; that of the table where the key is absent.
  int line(const std::string& key) const;
  /// "lesson.md:12", the key's line.
  std::string place(const std::string& key = "") const;
};

/// `first_line`: where `text` begins in `file`, for messages. Throws Error(input) with file, line and reason, and
/// Error(unsupported) in a build without toml++.
TomlTable parse_toml(std::string_view text, const std::string& file, int first_line = 1);
/// False in a build without toml++: lessons are then listed nowhere, and asking for one says why.
bool can_read_toml();

// A value of the table with its type checked; each throws Error(input) with file and line.
std::string toml_string(const TomlTable& table, const char* key);
std::string toml_string(const TomlTable& table, const char* key, const std::string& otherwise);
bool toml_bool(const TomlTable& table, const char* key, bool otherwise);
int toml_integer(const TomlTable& table, const char* key, int lo, int hi);
/// A list of strings, or one string for a list of one; empty where the key is absent.
std::vector<std::string> toml_strings(const TomlTable& table, const char* key);
/// Refuses keys that are not in `known`: a misspelt key must not be a default.
void check_toml_keys(const TomlTable& table, const std::vector<std::string>& known);

}  // namespace flashscope
