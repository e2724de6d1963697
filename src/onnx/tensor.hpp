// TensorProto -> Tensor.
#pragma once

#include <cstdint>
#include <string>

#include <halfeven/tensor.hpp>
#include <halfeven/types.hpp>

#include "onnx/external.hpp"
#include "onnx/schema.pb.h"

namespace halfeven::onnx {

/// The element type of that number. Throws Error{model} naming `what` for a number that is no type.
DType decode_type(std::int32_t number, const std::string& what);

/// Turns `proto` into a tensor: raw or typed data, packed elements one byte each, external data mapped from `external`.
/// Takes the raw data out of `proto`. `what` is the tensor in messages: "initializer 'w'". Throws Error{model} for a
/// type without storage, dimensions that are negative or too many, and data that does not match them.
Tensor decode_tensor(onnx_schema::TensorProto& proto, const std::string& what, const Limits& limits,
                     ExternalData& external);

}  // namespace halfeven::onnx
