// Local functions of a model: read when first called, expanded in place of their calls. Those of domain "halfeven"
// become groups instead (see own_functions.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "ir/graph.hpp"
#include "onnx/node.hpp"
#include "onnx/schema.pb.h"

namespace halfeven::onnx {

/// Domain ("" for ai.onnx) -> version.
using Opsets = std::map<std::string, int>;

/// Reads opset imports. `who` completes messages: "the model", "function 'local.F'". Throws Error{model} for a domain
/// imported in two versions and a version that is none; whether ai.onnx's is supported is checked where it is used.
Opsets read_opsets(const google::protobuf::RepeatedPtrField<onnx_schema::OperatorSetIdProto>& imports,
                   const std::string& who);

/// The version imported for `domain`. `user` is the node in messages. Throws Error{model} if there is none or it is not
/// one of those the engine knows.
int find_version(const Opsets& opsets, const std::string& domain, const std::string& who, const std::string& user);

/// A function ready to be expanded. Its values are numbered: inputs first, then what its nodes compute.
struct Function {
  std::string name;  ///< "domain.name" for messages
  Opsets opsets;
  std::size_t inputs = 0;
  std::vector<ir::Value> values;
  std::vector<std::uint32_t> outputs;  ///< indices into values
  std::vector<ParsedNode> nodes;
  std::map<std::string, std::optional<ir::Attribute>> parameters;  ///< attributes and their defaults
  std::string op_type;                                             ///< domain "halfeven": the operator that it is
  std::shared_ptr<const ir::Graph> body;                           ///< domain "halfeven": of groups; made when called
};

class Functions {
 public:
  /// Throws Error{model} if two functions have the same domain, name and overload.
  Functions(onnx_schema::ModelProto& model, ReadContext& context);

  bool contains(const ParsedNode& node) const;
  /// Whether append() replaces the node, so that its domain needs no version: a call of a function that is expanded.
  bool expands(const ParsedNode& node) const;

  /// Appends the node to the graph, or the nodes of the function that it calls. `node` is complete, its names resolved
  /// to the graph's values. Throws Error{model} for a call that does not fit the function, recursion, and growth beyond
  /// the limits.
  void append(ir::Graph& graph, ParsedNode node);

 private:
  using Key = std::tuple<std::string, std::string, std::string>;  // domain, name, overload
  struct Call {
    std::string prefix;  // of the names that the expansion makes
    int depth = 0;
  };

  static Key key_of(const ParsedNode& node);
  Function& find(const ParsedNode& node);
  Function read(onnx_schema::FunctionProto& proto);
  void read_values(onnx_schema::FunctionProto& proto, Function& function,
                   std::unordered_map<std::string, std::uint32_t>& names);
  void append(ir::Graph& graph, ParsedNode node, const Call& call);
  void append_own(ir::Graph& graph, ParsedNode node, Function& function);
  ir::Graph body_of(const Function& function) const;
  void count(std::size_t nodes);
  void expand(ir::Graph& graph, const Function& function, const ir::Node& node, const Call& call);
  ir::ValueId new_value(ir::Graph& graph, const ir::Value& value, const std::string& prefix);
  void charge(std::size_t bytes);

  struct Entry {
    onnx_schema::FunctionProto* proto;
    std::optional<Function> function;
    bool active = false;  // being expanded: another call would be recursion
  };

  ReadContext& context_;
  std::map<Key, Entry> functions_;
  std::unordered_map<std::string, std::uint32_t> names_;  // of values -> suffixes tried; filled at the first expansion
  std::uint64_t steps_ = 0;                               // nodes appended and calls expanded
  std::uint64_t bytes_ = 0;                               // copied by expansions
};

}  // namespace halfeven::onnx
