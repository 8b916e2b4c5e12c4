// The name of a JSON document, for headers that only pass one on. Who looks into a document includes json_numbers.h:
// the library's own header costs seconds in every file that sees it.
#pragma once
#include <nlohmann/json_fwd.hpp>

namespace flashscope {

/// Keys keep the order in which they were written.
using Json = nlohmann::ordered_json;

}  // namespace flashscope
