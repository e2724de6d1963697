// Digests of parts of a graph, for finding equal ones.
#pragma once

#include <string>

#include "ir/graph.hpp"

namespace halfeven::ir {

/// Of operator, version, attributes, body and which outputs are present: all but what the node reads.
std::string digest(const Node& node);

}  // namespace halfeven::ir
