#include "onnx/node.hpp"

#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <halfeven/error.hpp>

#include "ir/quote.hpp"
#include "onnx/tensor.hpp"

namespace halfeven::onnx {
namespace {

using ir::quote;
using onnx_schema::AttributeProto;
using onnx_schema::NodeProto;

// The numbers of AttributeProto.type.
enum AttributeType : std::int32_t {
  kUndefined = 0,
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kGraph = 5,
  kFloats = 6,
  kInts = 7,
  kStrings = 8,
  kTensors = 9,
  kGraphs = 10,
  kSparseTensor = 11,
  kSparseTensors = 12,
  kTypeProto = 13,
  kTypeProtos = 14,
};

constexpr std::array<std::string_view, 15> kTypeNames = {
    "undefined", "float",   "int",    "string",        "tensor",         "subgraph", "floats",       "ints",
    "strings",   "tensors", "graphs", "sparse tensor", "sparse tensors", "type",     "list of types"};

// The types whose field holds something, in no order that matters.
std::vector<std::int32_t> types_present(const AttributeProto& proto) {
  const std::array<std::pair<AttributeType, bool>, 14> fields = {{
      {kFloat, proto.has_f()},
      {kInt, proto.has_i()},
      {kString, proto.has_s()},
      {kTensor, proto.has_t()},
      {kGraph, proto.has_g()},
      {kFloats, proto.floats_size() > 0},
      {kInts, proto.ints_size() > 0},
      {kStrings, proto.strings_size() > 0},
      {kTensors, proto.tensors_size() > 0},
      {kGraphs, proto.graphs_size() > 0},
      {kSparseTensor, proto.has_sparse_tensor()},
      {kSparseTensors, proto.sparse_tensors_size() > 0},
      {kTypeProto, proto.has_tp()},
      {kTypeProtos, proto.type_protos_size() > 0},
  }};
  std::vector<std::int32_t> present;
  for (const auto& [type, is_present] : fields) {
    if (is_present) present.push_back(type);
  }
  return present;
}

// The stated type, which the value must not contradict; files older than the field state it by what they hold. Writers
// may leave out a value that is zero or empty.
std::int32_t find_type(const AttributeProto& proto, const std::string& what) {
  const std::vector<std::int32_t> present = types_present(proto);
  for (const std::int32_t type : present) {
    if (proto.type() != kUndefined && type != proto.type()) {
      throw Error(ErrorCode::model, fmt::format("{} says that it is of type {}, but holds a value of type {}", what,
                                                attribute_type_name(proto.type()), attribute_type_name(type)));
    }
  }
  if (proto.type() != kUndefined) return proto.type();
  if (present.size() == 1) return present[0];
  throw Error(ErrorCode::model, fmt::format("{} has no type", what));
}

[[noreturn]] void refuse_type(std::int32_t type, const std::string& what) {
  throw Error(ErrorCode::model,
              fmt::format("{} is of type {}, which is not supported", what, attribute_type_name(type)));
}

void read_attributes(NodeProto& proto, ParsedNode& parsed, ReadContext& context) {
  const std::string where = describe(proto);
  std::map<std::string, bool> seen;
  for (AttributeProto& attribute : *proto.mutable_attribute()) {
    if (!seen.emplace(attribute.name(), true).second) {
      throw Error(ErrorCode::model, fmt::format("attribute {} of {} is given twice", quote(attribute.name()), where));
    }
    if (!attribute.ref_attr_name().empty()) {
      parsed.references.push_back({attribute.name(), attribute.ref_attr_name(), attribute.type()});
    } else if (attribute.has_g() || attribute.graphs_size() > 0 || attribute.type() == kGraph ||
               attribute.type() == kGraphs) {
      throw Error(ErrorCode::model,
                  fmt::format("operator {} with a subgraph is not supported (node {}, attribute {})",
                              ir::printable(proto.op_type()), quote(label(proto)), quote(attribute.name())));
    } else {
      parsed.node.attributes.emplace(attribute.name(), read_attribute(attribute, where, context));
    }
  }
}

}  // namespace

std::string normal_domain(const std::string& domain) { return domain == "ai.onnx" ? std::string() : domain; }

std::string label(const NodeProto& proto) {
  if (!proto.name().empty()) return proto.name();
  for (const std::string& output : proto.output()) {
    if (!output.empty()) return output;
  }
  return {};
}

std::string describe(const NodeProto& proto) {
  if (!proto.name().empty()) return ir::printable(proto.op_type()) + " " + quote(proto.name());
  const std::string output = label(proto);
  const std::string op_type = ir::printable(proto.op_type());
  return output.empty() ? op_type : op_type + " -> " + quote(output);
}

std::string attribute_type_name(std::int32_t type) {
  return type >= 0 && static_cast<std::size_t>(type) < kTypeNames.size()
             ? std::string(kTypeNames[static_cast<std::size_t>(type)])
             : fmt::format("number {}", type);
}

std::int32_t attribute_type(const ir::Attribute& attribute) {
  // In the order of ir::Attribute's alternatives.
  constexpr std::array<std::int32_t, 7> kTypes = {kInt, kFloat, kString, kInts, kFloats, kStrings, kTensor};
  return kTypes[attribute.index()];
}

bool is_of_type(const ir::Attribute& attribute, std::int32_t type) {
  return type == kUndefined || attribute_type(attribute) == type;
}

ir::Attribute read_attribute(AttributeProto& proto, const std::string& where, ReadContext& context) {
  const std::string what = fmt::format("attribute {} of {}", quote(proto.name()), where);
  const std::int32_t type = find_type(proto, what);
  switch (type) {
    case kFloat: return proto.f();
    case kInt: return static_cast<std::int64_t>(proto.i());
    case kString: return std::move(*proto.mutable_s());
    case kFloats: return std::vector<float>(proto.floats().begin(), proto.floats().end());
    case kInts: return std::vector<std::int64_t>(proto.ints().begin(), proto.ints().end());
    case kStrings: return std::vector<std::string>(proto.strings().begin(), proto.strings().end());
    case kTensor:
      if (!proto.has_t()) throw Error(ErrorCode::model, fmt::format("{} holds no tensor", what));
      return decode_tensor(*proto.mutable_t(), what, context.limits, context.external);
    default: refuse_type(type, what);
  }
}

ParsedNode read_node(NodeProto& proto, ReadContext& context) {
  if (proto.op_type().empty()) {
    throw Error(ErrorCode::model, fmt::format("node {} has no operator", quote(label(proto))), label(proto));
  }
  ParsedNode parsed;
  parsed.node.name = proto.name();
  parsed.node.domain = normal_domain(proto.domain());
  parsed.node.op_type = proto.op_type();
  parsed.overload = proto.overload();
  try {
    read_attributes(proto, parsed, context);
  } catch (const Error& error) {
    throw Error(error.code(), error.what(), label(proto));
  }
  return parsed;
}

}  // namespace halfeven::onnx
