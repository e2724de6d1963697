#include "onnx/value_info.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <halfeven/error.hpp>

#include "onnx/tensor.hpp"

namespace halfeven::onnx {
namespace {

using onnx_schema::TypeProto;

const char* kind_name(const TypeProto& type) {
  switch (type.value_case()) {
    case TypeProto::kSequenceType: return "a sequence";
    case TypeProto::kMapType: return "a map";
    case TypeProto::kOpaqueType: return "an opaque type";
    case TypeProto::kSparseTensorType: return "a sparse tensor";
    case TypeProto::kOptionalType: return "an optional";
    default: return "no tensor";
  }
}

void read_shape(const onnx_schema::TensorShapeProto& proto, const std::string& what, ir::Value& value) {
  Shape shape;
  std::vector<std::string> symbols;
  Shape known;
  for (const auto& dim : proto.dim()) {
    if (dim.has_dim_value() && dim.dim_value() < 0) {
      throw Error(ErrorCode::model,
                  fmt::format("{} has a negative dimension: {} at position {}", what, dim.dim_value(), shape.size()));
    }
    shape.push_back(dim.has_dim_value() ? dim.dim_value() : kUnknownDim);
    symbols.push_back(dim.dim_param());
    if (dim.has_dim_value()) known.push_back(dim.dim_value());
  }
  try {
    element_count(known);
  } catch (const Error&) {
    throw Error(ErrorCode::model, fmt::format("{} has shape {}: more elements than can exist", what, to_string(shape)));
  }
  const bool has_symbols = std::any_of(symbols.begin(), symbols.end(), [](const auto& s) { return !s.empty(); });
  value.shape = std::move(shape);
  value.dim_names = has_symbols ? std::move(symbols) : std::vector<std::string>();
}

}  // namespace

void read_value_info(const onnx_schema::ValueInfoProto& proto, const std::string& what, ir::Value& value) {
  const TypeProto& type = proto.type();
  if (type.value_case() == TypeProto::VALUE_NOT_SET) return;
  if (!type.has_tensor_type()) {
    throw Error(ErrorCode::model, fmt::format("{} is {}, which is not supported", what, kind_name(type)));
  }
  value.dtype = decode_type(type.tensor_type().elem_type(), what);
  if (type.tensor_type().has_shape()) read_shape(type.tensor_type().shape(), what, value);
}

}  // namespace halfeven::onnx
