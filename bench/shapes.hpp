// Named sets of one-operator graphs: the layers of known networks, and the worst there is.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plan/samples.hpp"

namespace halfeven::bench {

struct BenchShape {
  std::string name;     ///< "conv 3x3 64x56x56 -> 64"
  std::string op_type;  ///< which kernels to ask: those that name it in Entry::takes
  std::function<plan::Sample()> make;
  bool elementwise = false;  ///< those too that say "elementwise" there
};

/// Names of the suites that shapes() knows.
std::vector<std::string> shape_suites();
/// Throws Error{usage} for another name.
std::vector<BenchShape> shapes(const std::string& suite);

}  // namespace halfeven::bench
