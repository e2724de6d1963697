// Which float tensors may be stored as floats between two steps.
#pragma once

#include <vector>

#include "ir/graph.hpp"

namespace halfeven::plan {

/// By ValueId: whether nothing is lost by storing the value rounded to its type. That is so unless somebody reads it
/// unrounded: QuantizeLinear, directly or behind operators that pass values on, and every reader of a dequantized
/// tensor (contract section 1, rules 3 to 5). True for everything that is no float.
std::vector<bool> storable(const ir::Graph& graph);

}  // namespace halfeven::plan
