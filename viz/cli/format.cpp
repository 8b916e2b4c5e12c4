#include "viz/cli/format.h"

#include <fmt/format.h>

namespace flashscope {

std::string formatted_values(fmt::string_view format, fmt::format_args values) { return fmt::vformat(format, values); }

}  // namespace flashscope
