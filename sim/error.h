// One error type for every room. The kind decides the process exit code; the text says what, where and the next step.
#pragma once
#include <stdexcept>
#include <string>
#include <utility>

namespace flashscope {

enum class ErrorKind {
  internal = 1,     // a broken law of our own
  usage = 2,        // an option or its value: the text names the option and the accepted range
  input = 3,        // a bad file: the text names the file and the place
  env = 4,          // no display, no GPU, a driver that is too old
  unsupported = 5,  // a valid request that this build or device cannot serve: the text names what can be served
  resource = 6,     // not enough memory: the text gives the needed and the available bytes
  io = 7,           // could not write
  verify = 8,       // a result failed its check
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, std::string text) : std::runtime_error(std::move(text)), m_kind(kind) {}
  ErrorKind kind() const { return m_kind; }
  int exit_code() const { return static_cast<int>(m_kind); }

 private:
  ErrorKind m_kind;
};

}  // namespace flashscope
