// Groups opened up.
#pragma once

#include "ir/graph.hpp"

namespace halfeven::verification {

/// The graph with the nodes of every group's body in the group's place.
ir::Graph flatten(const ir::Graph& graph);

}  // namespace halfeven::verification
