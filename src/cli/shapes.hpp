// Shapes on the command line.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <halfeven/types.hpp>

namespace halfeven::cli {

/// "x=1x3x224x224" arguments by input name. Throws Error{usage}.
std::map<std::string, Shape> parse_shapes(const std::vector<std::string>& texts);

}  // namespace halfeven::cli
