#include "viz/io/version.h"

#include <nlohmann/json.hpp>

#include "viz/io/build_info.h"

namespace flashscope {

const char* version() { return FLASHSCOPE_VERSION; }
const char* commit() { return FLASHSCOPE_COMMIT; }

std::string version_line() { return std::string("flashscope ") + version() + " (commit " + commit() + ")"; }

void stamp(nlohmann::ordered_json& document) {
  document["flashscope"] = {{"version", version()}, {"commit", commit()}};
}

}  // namespace flashscope
