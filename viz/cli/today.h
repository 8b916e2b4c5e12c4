// The date that measurements are labelled with.
#pragma once
#include <string>

namespace flashscope {

/// In UTC, as "2026-11-30".
std::string today();

}  // namespace flashscope
