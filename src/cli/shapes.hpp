// Shapes on the command line.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <halfeven/halfeven.hpp>

namespace halfeven::cli {

/// "x=1x3x224x224" arguments by input name. Throws Error{usage}.
std::map<std::string, Shape> parse_shapes(const std::vector<std::string>& texts);

/// Throws Error{usage} where the input's shape has unknown dimensions, naming the `options` that could give it.
void require_known_shape(const ValueInfo& input, const Shape& shape, const std::string& options);

}  // namespace halfeven::cli
