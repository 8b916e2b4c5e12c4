// What kind of Error an expression throws, and with which text.
#pragma once
#include <optional>
#include <string>

#include "sim/error.h"

namespace flashscope {

struct Thrown {
  std::optional<ErrorKind> kind;  // none: nothing was thrown
  std::string text;
  bool says(const std::string& part) const { return text.find(part) != std::string::npos; }
};

template <class Body>
Thrown thrown_by(Body body) {
  try {
    body();
  } catch (const Error& error) {
    return {error.kind(), error.what()};
  }
  return {};
}

}  // namespace flashscope
