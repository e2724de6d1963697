// The graph: a value that can be copied, compared and hashed. Nodes and values are indices into flat arrays.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <halfeven/tensor.hpp>
#include <halfeven/types.hpp>

namespace halfeven::ir {

/// Index into Graph::values. An absent optional input or output is `none`.
struct ValueId {
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t index = kNone;

  bool present() const { return index != kNone; }
  auto operator<=>(const ValueId&) const = default;
};

/// Index into Graph::nodes.
struct NodeId {
  std::uint32_t index = 0;
  auto operator<=>(const NodeId&) const = default;
};

/// A tensor that a node, an input or an initializer defines. Type and shape are what the model declares or what
/// inference found; `dim_names` holds the symbol of each symbolic dimension ("" elsewhere) and is as long as the shape
/// or empty.
struct Value {
  std::string name;
  DType dtype = DType::undefined;
  std::optional<Shape> shape;
  std::vector<std::string> dim_names;
};

using Attribute = std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>, std::vector<float>,
                               std::vector<std::string>, Tensor>;

struct Graph;

/// One operator call. `domain` is "" for ai.onnx. `version` is the opset version that the model imports for the domain.
struct Node {
  std::string name;
  std::string domain;
  std::string op_type;
  int version = 0;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::map<std::string, Attribute> attributes;
  /// What a group stands for: a node with a body (domain "halfeven") means the composition of the body's nodes, the
  /// roundings between them included. The body's inputs and outputs are the node's, in order. Null for plain operators.
  std::shared_ptr<const Graph> body;
};

/// A directed acyclic graph of nodes in topological order, ties by original position.
struct Graph {
  std::string name;
  std::map<std::string, int> opsets;  ///< domain ("" for ai.onnx) -> version
  std::int64_t ir_version = 0;
  std::string producer;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ValueId> inputs;             ///< in the model's order; those in `initializers` too have a default
  std::vector<ValueId> outputs;            ///< in the model's order
  std::map<ValueId, Tensor> initializers;  ///< constants and defaults of inputs

  const Value& value(ValueId id) const { return values[id.index]; }
  Value& value(ValueId id) { return values[id.index]; }
  bool is_input(ValueId id) const;
  /// An initializer that no caller can override.
  bool is_constant(ValueId id) const;
  /// The id of the value of that name, or an absent one.
  ValueId find(const std::string& name) const;
};

/// An integer attribute; `otherwise` if it is absent or of another type (operators that mind say so in inference).
std::int64_t int_attribute(const Node& node, const std::string& name, std::int64_t otherwise);

/// How messages name a node: its name, else its first output: "Conv 'conv1'" or "Conv -> 'y'".
std::string describe(const Graph& graph, const Node& node);
/// The plain name that Error::node() carries: the node's name, else its first output's.
std::string label(const Graph& graph, const Node& node);

/// Checks structure: every value has one definition, every name used is defined, no cycle. Puts the nodes into
/// topological order (ties by position). Throws Error{model} naming the tensor and the operators.
void sort_and_check(Graph& graph);

/// SHA-256 (64 hex digits) over operators, versions, attributes, types, connections and constants, whatever the names.
std::string structural_hash(const Graph& graph);

/// The graph as text, a node a line.
std::string to_text(const Graph& graph);

}  // namespace halfeven::ir
