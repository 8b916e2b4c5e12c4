// Colours of an exported lesson are CSS variables: the same page serves light and dark.
#pragma once
#include <string>

#include "sim/schedule/op.h"
#include "sim/trace/trace.h"

namespace flashscope {

inline std::string css_variable(Tensor tensor) { return std::string("--tensor-") + name_of(tensor); }
inline std::string css_variable(Reason reason) { return std::string("--reason-") + name_of(reason); }

}  // namespace flashscope
