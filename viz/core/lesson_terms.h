// The words that lessons use, what each means, and what it is on the stage: that decides its colour
// (viz/render/palette.h).
#pragma once
#include <string>
#include <vector>

#include "sim/schedule/op.h"
#include "sim/trace/trace.h"

namespace flashscope::viz {

struct Term {
  enum class Thing : std::uint8_t { word, tensor, reason };
  const char* name;
  const char* meaning;  // one sentence
  Thing thing = Thing::word;
  Tensor tensor = Tensor::Q;
  Reason reason = Reason::idle;
};

const std::vector<Term>& terms();
/// By its name as written; nullptr when there is none.
const Term* find_term(const std::string& name);

}  // namespace flashscope::viz
