// NaN checks of values that cannot be NaN.
#pragma once

#include "ir/graph.hpp"

namespace halfeven::plan {

/// The graph without each Where whose condition is the IsNaN of a dequantized tensor: integers times a finite scale are
/// numbers, so it always passes on its third input. Exporters put such a check behind every Softmax. Needs concrete
/// shapes.
ir::Graph drop_nan_checks(const ir::Graph& graph);

}  // namespace halfeven::plan
