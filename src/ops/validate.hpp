// Types and shapes of a whole graph.
#pragma once

#include <map>
#include <optional>

#include "ops/operator.hpp"

namespace halfeven::ops {

/// What is known of a graph beyond its text.
struct Facts {
  /// Values known before any input is given: initializers that are not inputs, Constant nodes, and small integer
  /// tensors computed from such or from shapes.
  std::map<ir::ValueId, Tensor> known;
  /// Contract section 1, rule 6: values that depend on constants alone.
  std::vector<bool> constant;  ///< by ValueId
};

/// Sorts and checks the graph's structure, refuses operators and versions that are not served, infers type and, as far
/// as possible, shape of every value and writes them into the graph. Throws Error{model} naming node and tensor.
Facts validate(ir::Graph& graph);

/// A body with the types and known values of a group's inputs, its own types and shapes inferred. `inputs` and
/// `constants` are as long as the body's inputs, and so is `constant`, which says which of them depend on constants
/// alone (rule 6 holds inside a group, too).
struct BoundBody {
  ir::Graph graph;
  Facts facts;
};
BoundBody bind_body(const ir::Graph& body, const std::vector<TypeShape>& inputs,
                    const std::vector<std::optional<Tensor>>& constants, const std::vector<bool>& constant);

/// Types of the node's outputs for inputs of the given types and known values. Checks their number.
std::vector<TypeShape> infer(const ir::Graph& graph, const ir::Node& node, const Operator& op,
                             std::vector<TypeShape> inputs, std::vector<std::optional<Tensor>> constants);

/// The operator of a node. Throws Error{model} if it, its version, or its number of inputs or outputs is not served.
const Operator& operator_of(const ir::Graph& graph, const ir::Node& node);

/// Whether contract section 1, rule 4 applies to the node with these input types and output type, and to which inputs.
bool passes_on(const Operator& op, std::size_t input, DType from, DType to);

}  // namespace halfeven::ops
