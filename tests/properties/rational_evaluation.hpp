// The numeric contract's sections 1 and 2 in rational arithmetic, for small graphs. It shares nothing with the engine:
// another library of big numbers, other loops, its own rounding. Slow and plain on purpose.
#pragma once

#include <map>
#include <stdexcept>
#include <string>

#include "properties/small_graph.hpp"

namespace halfeven::properties {

/// The graph has a value that this evaluation does not serve (it overflows its type).
struct OutOfRange : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What a reader sees of every tensor that a node computes; dequantized values are rounded to their type, as in an
/// output. `exact`: section 1, else section 2.
std::map<std::string, SmallTensor> evaluate(const SmallGraph& graph, bool exact);

/// Names of all tensors that depend on no graph input.
std::map<std::string, bool> constant_tensors(const SmallGraph& graph);

/// Operators of section 1, rule 4.
bool passes_values_on(const SmallNode& node, DType from, DType to);

}  // namespace halfeven::properties
