// Tensor, ir::Attribute and ir::Value -> their protobuf messages: what tensor.hpp, node.hpp and value_info.hpp undo.
#pragma once

#include <string>

#include "ir/graph.hpp"
#include "onnx/schema.pb.h"

namespace halfeven::onnx {

/// Type, dimensions and raw data, 4- and 2-bit elements packed, the first in the lowest bits.
void encode_tensor(const Tensor& tensor, onnx_schema::TensorProto& proto);

void encode_attribute(const std::string& name, const ir::Attribute& attribute, onnx_schema::AttributeProto& proto);

/// Name and what is known of type, shape and symbols.
void encode_value_info(const ir::Value& value, onnx_schema::ValueInfoProto& proto);

}  // namespace halfeven::onnx
