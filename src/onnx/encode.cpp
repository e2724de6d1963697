#include "onnx/encode.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "onnx/node.hpp"

namespace halfeven::onnx {
namespace {

using onnx_schema::AttributeProto;
using onnx_schema::TensorProto;

std::string packed_bytes(const Tensor& tensor) {
  const auto bytes = tensor.bytes();
  const auto width = static_cast<std::size_t>(bits(tensor.dtype()));
  if (width >= 8) return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  const std::size_t per_byte = 8 / width;
  const unsigned mask = (1U << width) - 1;
  std::vector<unsigned char> packed((bytes.size() + per_byte - 1) / per_byte, 0);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const unsigned code = std::to_integer<unsigned>(bytes[i]) & mask;
    const unsigned moved = code << (i % per_byte * width);
    packed[i / per_byte] = static_cast<unsigned char>(packed[i / per_byte] | moved);
  }
  return {packed.begin(), packed.end()};
}

// Sets the field that holds an attribute of each type.
struct Setter {
  AttributeProto& proto;

  void operator()(std::int64_t value) const { proto.set_i(value); }
  void operator()(float value) const { proto.set_f(value); }
  void operator()(const std::string& value) const { proto.set_s(value); }
  void operator()(const std::vector<std::int64_t>& values) const {
    for (const std::int64_t value : values) proto.add_ints(value);
  }
  void operator()(const std::vector<float>& values) const {
    for (const float value : values) proto.add_floats(value);
  }
  void operator()(const std::vector<std::string>& values) const {
    for (const std::string& value : values) proto.add_strings(value);
  }
  void operator()(const Tensor& value) const { encode_tensor(value, *proto.mutable_t()); }
};

}  // namespace

void encode_tensor(const Tensor& tensor, TensorProto& proto) {
  for (const std::int64_t dim : tensor.shape()) proto.add_dims(dim);
  proto.set_data_type(static_cast<std::int32_t>(tensor.dtype()));
  proto.set_raw_data(packed_bytes(tensor));
}

void encode_attribute(const std::string& name, const ir::Attribute& attribute, AttributeProto& proto) {
  proto.set_name(name);
  proto.set_type(attribute_type(attribute));
  std::visit(Setter{proto}, attribute);
}

void encode_value_info(const ir::Value& value, onnx_schema::ValueInfoProto& proto) {
  proto.set_name(value.name);
  if (value.dtype == DType::undefined) return;
  auto& type = *proto.mutable_type()->mutable_tensor_type();
  type.set_elem_type(static_cast<std::int32_t>(value.dtype));
  if (!value.shape) return;
  auto& shape = *type.mutable_shape();
  for (std::size_t i = 0; i < value.shape->size(); ++i) {
    auto& dim = *shape.add_dim();
    if ((*value.shape)[i] != kUnknownDim) {
      dim.set_dim_value((*value.shape)[i]);
    } else if (i < value.dim_names.size() && !value.dim_names[i].empty()) {
      dim.set_dim_param(value.dim_names[i]);
    }
  }
}

}  // namespace halfeven::onnx
