#include "plan/selftest.hpp"

namespace halfeven::plan {
const std::string& self_test(const Entry&) {
  static const std::string fine;
  return fine;
}
}  // namespace halfeven::plan
