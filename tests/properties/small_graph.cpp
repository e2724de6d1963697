#include "properties/small_graph.hpp"

#include <algorithm>

#include <cmath>
#include <cstring>
#include <sstream>
#include <stdexcept>

#include "onnx/schema.pb.h"

namespace halfeven::properties {
namespace {

using onnx_schema::AttributeProto;

// The bits of a value that the 16-bit format holds.
std::uint16_t bits_of(double value, const BinaryFormat& format) {
  if (value == 0) return 0;
  const unsigned sign = value < 0 ? 0x8000U : 0U;
  const int fraction_bits = format.precision - 1;
  const int least_normal = format.lowest + fraction_bits;
  const int exponent = std::max(std::ilogb(value), least_normal);
  const auto units = static_cast<unsigned>(std::ldexp(std::fabs(value), fraction_bits - exponent));
  // A subnormal has no implicit bit, which its exponent field of 0 against 1 makes up for.
  return static_cast<std::uint16_t>(
      sign + (static_cast<unsigned>(exponent - least_normal) << static_cast<unsigned>(fraction_bits)) + units);
}

template <class T>
void append(std::vector<std::byte>& bytes, T value) {
  const std::size_t at = bytes.size();
  bytes.resize(at + sizeof value);
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

std::vector<std::byte> bytes_of(const SmallTensor& tensor) {
  std::vector<std::byte> bytes;
  for (const double v : tensor.values) {
    switch (tensor.dtype) {
      case DType::float32: append(bytes, static_cast<float>(v)); break;
      case DType::float64: append(bytes, v); break;
      case DType::float16:
      case DType::bfloat16: append(bytes, bits_of(v, binary_format(tensor.dtype))); break;
      case DType::uint8: append(bytes, static_cast<std::uint8_t>(v)); break;
      case DType::int8:
      case DType::int4: append(bytes, static_cast<std::int8_t>(v)); break;
      case DType::uint16: append(bytes, static_cast<std::uint16_t>(v)); break;
      case DType::int16: append(bytes, static_cast<std::int16_t>(v)); break;
      case DType::int32: append(bytes, static_cast<std::int32_t>(v)); break;
      case DType::int64: append(bytes, static_cast<std::int64_t>(v)); break;
      default: throw std::logic_error("no such small tensor");
    }
  }
  return bytes;
}

std::string raw_data(const SmallTensor& tensor) {
  const std::vector<std::byte> bytes = bytes_of(tensor);
  std::string raw;
  if (tensor.dtype != DType::int4) {
    for (const std::byte b : bytes) raw.push_back(static_cast<char>(b));
    return raw;
  }
  for (std::size_t i = 0; i < bytes.size(); i += 2) {  // the first of a pair in the low half
    unsigned pair = std::to_integer<unsigned>(bytes[i]) & 15U;
    if (i + 1 < bytes.size()) pair |= (std::to_integer<unsigned>(bytes[i + 1]) & 15U) << 4U;
    raw.push_back(static_cast<char>(pair));
  }
  return raw;
}

// QLinearAdd, QLinearConcat ...: all QLinear operators but the two of ONNX.
bool is_microsoft(const std::string& op) {
  return op.starts_with("QLinear") && op != "QLinearConv" && op != "QLinearMatMul";
}

AttributeProto& attribute(onnx_schema::NodeProto& node, const std::string& name, int type) {
  AttributeProto& a = *node.add_attribute();
  a.set_name(name);
  a.set_type(type);
  return a;
}

}  // namespace

BinaryFormat binary_format(DType type) {
  switch (type) {
    case DType::float16: return {11, -24, 15};
    case DType::bfloat16: return {8, -133, 127};
    case DType::float32: return {24, -149, 127};
    case DType::float64: return {53, -1074, 1023};
    default: throw std::logic_error("not a float type");
  }
}

Tensor to_tensor(const SmallTensor& tensor) { return Tensor::own(tensor.dtype, tensor.shape, bytes_of(tensor)); }

std::string to_onnx(const SmallGraph& graph) {
  onnx_schema::ModelProto model;
  model.set_ir_version(10);
  auto* opset = model.add_opset_import();
  opset->set_domain("");
  opset->set_version(21);
  if (std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const SmallNode& n) { return is_microsoft(n.op); })) {
    auto* microsoft = model.add_opset_import();
    microsoft->set_domain("com.microsoft");
    microsoft->set_version(1);
  }
  auto& g = *model.mutable_graph();
  g.set_name("small");
  for (const auto& [name, tensor] : graph.inputs) {
    auto* info = g.add_input();
    info->set_name(name);
    auto* type = info->mutable_type()->mutable_tensor_type();
    type->set_elem_type(static_cast<int>(tensor.dtype));
    type->mutable_shape();
    for (const std::int64_t d : tensor.shape) {
      auto* dim = type->mutable_shape()->add_dim();
      if (d >= 0) {
        dim->set_dim_value(d);
      } else {
        dim->set_dim_param(name + std::to_string(type->shape().dim_size()));
      }
    }
  }
  for (const auto& [name, tensor] : graph.constants) {
    auto* proto = g.add_initializer();
    proto->set_name(name);
    proto->set_data_type(static_cast<int>(tensor.dtype));
    for (const std::int64_t d : tensor.shape) proto->add_dims(d);
    proto->set_raw_data(raw_data(tensor));
  }
  for (const SmallNode& n : graph.nodes) {
    auto& node = *g.add_node();
    node.set_op_type(n.op);
    if (is_microsoft(n.op)) node.set_domain("com.microsoft");
    node.set_name(n.op + " of " + n.output);
    for (const std::string& name : n.inputs) node.add_input(name);
    node.add_output(n.output);
    for (const std::string& name : n.more_outputs) node.add_output(name);
    for (const auto& [name, v] : n.floats) attribute(node, name, 1).set_f(v);
    for (const auto& [name, v] : n.integers) attribute(node, name, 2).set_i(v);
    for (const auto& [name, v] : n.strings) attribute(node, name, 3).set_s(v);
    for (const auto& [name, list] : n.lists) {
      AttributeProto& a = attribute(node, name, 7);
      for (const std::int64_t v : list) a.add_ints(v);
    }
  }
  for (const std::string& name : graph.outputs) g.add_output()->set_name(name);
  return model.SerializeAsString();
}

std::string to_text(const SmallGraph& graph) {
  std::ostringstream text;
  text.precision(17);
  const auto tensor = [&](const char* kind, const std::string& name, const SmallTensor& t) {
    text << kind << ' ' << name << ' ' << to_string(t.dtype) << to_string(t.shape);
    for (std::size_t i = 0; i < std::min<std::size_t>(t.values.size(), 8); ++i) text << ' ' << t.values[i];
    text << '\n';
  };
  for (const auto& [name, t] : graph.inputs) tensor("input", name, t);
  for (const auto& [name, t] : graph.constants) tensor("constant", name, t);
  for (const SmallNode& n : graph.nodes) {
    text << n.output << " = " << n.op << '(';
    for (const std::string& name : n.inputs) text << ' ' << (name.empty() ? "-" : name);
    text << " )";
    for (const auto& [name, v] : n.integers) text << ' ' << name << '=' << v;
    for (const auto& [name, v] : n.lists) text << ' ' << name << '=' << to_string(v);
    for (const auto& [name, v] : n.floats) text << ' ' << name << '=' << static_cast<double>(v);
    for (const auto& [name, v] : n.strings) text << ' ' << name << '=' << v;
    text << '\n';
  }
  text << "outputs";
  for (const std::string& name : graph.outputs) text << ' ' << name;
  return text.str();
}

}  // namespace halfeven::properties
