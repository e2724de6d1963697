// ValueInfoProto -> the type, shape and symbols of a value.
#pragma once

#include <string>

#include "ir/graph.hpp"
#include "onnx/schema.pb.h"

namespace halfeven::onnx {

/// Sets what `proto` declares of `value`. `what` is the value in messages: "graph input 'x'". Throws Error{model} for
/// what is no tensor (sequence, map, optional ...), an unknown element type, and dimensions that are negative or too
/// many.
void read_value_info(const onnx_schema::ValueInfoProto& proto, const std::string& what, ir::Value& value);

}  // namespace halfeven::onnx
