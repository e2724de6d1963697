// The one exception type of the library.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace halfeven {

/// What kind of thing went wrong. The numbers are the exit codes of the command.
enum class ErrorCode {
  check_failed = 1,  ///< a cross-check found a difference
  usage = 2,         ///< the call itself is wrong
  model = 3,         ///< the model cannot be used: malformed, invalid, unsupported
  input = 4,         ///< an input cannot be used: missing, wrong type or shape, a value without an answer
  other = 5,         ///< anything else: no memory, no such file to write, a defect
};

/// Says what is wrong and where. `what()` is the whole message; `node()` names the node (or its first output, if it
/// has no name) when the error belongs to one, else it is empty.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message, std::string node = {})
      : std::runtime_error(message), code_(code), node_(std::move(node)) {}

  ErrorCode code() const noexcept { return code_; }
  const std::string& node() const noexcept { return node_; }

 private:
  ErrorCode code_;
  std::string node_;
};

}  // namespace halfeven
