#include "viz/io/json_numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "sim/error.h"

namespace flashscope {
namespace {

constexpr int kMaxLevels = 64;  // deeper documents are not ours, and printing them would recurse as deep

[[noreturn]] void bad_input(const std::string& text) { throw Error(ErrorKind::input, text); }

/// The library's text without its own prefix: "[json.exception.parse_error.101] parse error at line 1, column 2: …".
std::string reason_of(const nlohmann::json::exception& error) {
  std::string text = error.what();
  if (const std::size_t end = text.find("] "); end != std::string::npos) text.erase(0, end + 2);
  const std::string prefix = "parse error at ";
  if (text.compare(0, prefix.size(), prefix) == 0) text.erase(0, prefix.size());
  return text;
}

/// Refuses what the grammar allows but nobody means: a key twice in one object, and endless nesting.
class Strictness {
 public:
  explicit Strictness(const std::string& file) : m_file(file) {}

  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    switch (event) {
      case Json::parse_event_t::object_start:
      case Json::parse_event_t::array_start:
        if (depth >= kMaxLevels) bad_input(m_file + ": more than " + std::to_string(kMaxLevels) + " levels");
        m_keys.emplace_back();
        break;
      case Json::parse_event_t::key: {
        const std::string& key = parsed.get_ref<const std::string&>();
        if (!m_keys.back().insert(key).second) bad_input(m_file + ": the key \"" + key + "\" stands twice in one object");
        break;
      }
      case Json::parse_event_t::object_end:
      case Json::parse_event_t::array_end: m_keys.pop_back(); break;
      case Json::parse_event_t::value: break;
    }
    return true;
  }

 private:
  std::string m_file;
  std::vector<std::set<std::string>> m_keys;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& file) {
  try {
    Strictness strictness(file);
    return Json::parse(text, [&](int depth, Json::parse_event_t event, Json& parsed) {
      return strictness(depth, event, parsed);
    });
  } catch (const nlohmann::json::exception& error) {
    bad_input(file + ": " + reason_of(error));
  }
}

std::string json_text(const Json& document, int indent) {
  return document.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json json_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

std::string number_text(double value) {
  const Json number = json_number(value);
  return number.is_string() ? number.get<std::string>() : number.dump();
}

double number_from_json(const Json& value, const std::string& place) {
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) {
    const std::string& word = value.get_ref<const std::string&>();
    if (word == "inf") return std::numeric_limits<double>::infinity();
    if (word == "-inf") return -std::numeric_limits<double>::infinity();
    if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
  }
  bad_input(place + ": expected a number, \"inf\", \"-inf\" or \"nan\"");
}

const Json& required_member(const Json& object, const char* key, const std::string& place) {
  if (!object.is_object()) bad_input(place + ": expected an object");
  const auto member = object.find(key);
  if (member == object.end()) bad_input(place + ": \"" + key + "\" is missing");
  return *member;
}

std::string string_member(const Json& object, const char* key, const std::string& place) {
  const Json& member = required_member(object, key, place);
  if (!member.is_string()) bad_input(place + "." + key + ": expected a text in quotes");
  return member.get<std::string>();
}

std::int64_t integer_member(const Json& object, const char* key, std::int64_t lo, std::int64_t hi,
                            const std::string& place) {
  const Json& member = required_member(object, key, place);
  const std::string range = std::to_string(lo) + " … " + std::to_string(hi);
  if (!member.is_number_integer()) bad_input(place + "." + key + ": expected an integer, " + range);
  // Unsigned values above the largest signed one would come out negative.
  const bool too_large = member.is_number_unsigned() && member.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX);
  const std::int64_t value = too_large ? 0 : member.get<std::int64_t>();
  if (too_large || value < lo || value > hi)
    bad_input(place + "." + key + ": " + member.dump() + " is outside " + range);
  return value;
}

bool bool_member(const Json& object, const char* key, const std::string& place) {
  const Json& member = required_member(object, key, place);
  if (!member.is_boolean()) bad_input(place + "." + key + ": expected true or false");
  return member.get<bool>();
}

double number_member(const Json& object, const char* key, const std::string& place) {
  return number_from_json(required_member(object, key, place), place + "." + key);
}

}  // namespace flashscope
