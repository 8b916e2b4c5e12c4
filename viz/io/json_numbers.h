// JSON as this product writes and reads it: strict, integers exact, and the three numbers that JSON cannot say written
// as the strings "inf", "-inf" and "nan".
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "viz/io/json_fwd.h"

namespace flashscope {

/// Parses strict JSON. Throws Error(input) with file, line and column; also for a key that stands twice in one object
/// and for more than 64 levels.
Json parse_json(std::string_view text, const std::string& file);

/// The document as text with a final newline; `indent` < 0 puts it on one line. Text that is not UTF-8 is replaced.
std::string json_text(const Json& document, int indent = 2);

/// A number, or "inf", "-inf", "nan".
Json json_number(double value);
/// The same words for CSV: the shortest decimal that reads back as `value`, or inf, -inf, nan.
std::string number_text(double value);
/// The inverse of json_number. `place` ("h200.json: l2_bytes") begins the message of the Error(input).
double number_from_json(const Json& value, const std::string& place);

/// A member of an object, with its type and range checked. Each throws Error(input) beginning with `place`.
const Json& required_member(const Json& object, const char* key, const std::string& place);
std::string string_member(const Json& object, const char* key, const std::string& place);
std::int64_t integer_member(const Json& object, const char* key, std::int64_t lo, std::int64_t hi,
                            const std::string& place);
bool bool_member(const Json& object, const char* key, const std::string& place);
double number_member(const Json& object, const char* key, const std::string& place);

}  // namespace flashscope
