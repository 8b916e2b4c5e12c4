// What this program is: stands in --version and in every file it writes.
#pragma once
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace flashscope {

const char* version();  // "0.1.0"
const char* commit();   // 12 hexadecimal digits, or "unknown" when built outside a checkout

/// "flashscope 0.1.0 (commit 0123456789ab)"
std::string version_line();

/// Adds the key "flashscope": {"version": …, "commit": …} at the end of an object that goes into a file.
void stamp(nlohmann::ordered_json& document);

}  // namespace flashscope
