// A graph for inputs of given shapes.
#pragma once

#include <vector>

#include "ir/graph.hpp"

namespace halfeven::runtime {

/// The graph with these input shapes (one for each input) and everything inferred from them anew. Throws Error{model}
/// where they do not fit together.
ir::Graph bind_shapes(const ir::Graph& graph, const std::vector<Shape>& shapes);

}  // namespace halfeven::runtime
