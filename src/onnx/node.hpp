// NodeProto and AttributeProto -> ir::Node and ir::Attribute, names not yet resolved.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <halfeven/types.hpp>

#include "ir/graph.hpp"
#include "onnx/external.hpp"
#include "onnx/schema.pb.h"

namespace halfeven::onnx {

/// What reading any part of a model needs.
struct ReadContext {
  const Limits& limits;
  ExternalData& external;
};

/// An attribute of a function's node that takes the value of one of the function's attributes.
struct AttributeReference {
  std::string name;       ///< of the node's attribute
  std::string parameter;  ///< of the function's attribute
  std::int32_t type = 0;  ///< as the file numbers attribute types; 0: not stated
};

/// A node and what ir::Node cannot hold. Its inputs and outputs index the values of the graph or function it stands in.
struct ParsedNode {
  ir::Node node;
  std::string overload;
  std::vector<AttributeReference> references;
};

/// "" for ai.onnx, which has two names.
std::string normal_domain(const std::string& domain);

/// How messages name the node: "Conv 'c1'" or "Conv -> 'y'".
std::string describe(const onnx_schema::NodeProto& proto);
std::string label(const onnx_schema::NodeProto& proto);

/// A plain attribute (no reference). `where` completes messages: "Conv 'c1'". Throws Error{model} for types that are
/// not supported (subgraphs, sparse tensors, types, lists of tensors) and for values that contradict the type.
ir::Attribute read_attribute(onnx_schema::AttributeProto& proto, const std::string& where, ReadContext& context);

/// Domain, operator, name, overload and attributes; neither version nor inputs nor outputs. Throws Error{model}.
ParsedNode read_node(onnx_schema::NodeProto& proto, ReadContext& context);

/// Whether `attribute` is of the type that the file numbers `type` (0 fits all), that number, and how messages call a
/// type.
bool is_of_type(const ir::Attribute& attribute, std::int32_t type);
std::int32_t attribute_type(const ir::Attribute& attribute);
std::string attribute_type_name(std::int32_t type);

}  // namespace halfeven::onnx
