// Protobuf bytes -> schema message, or where they are broken.
#pragma once

#include <cstddef>
#include <span>

#include <halfeven/error.hpp>
#include <halfeven/types.hpp>

#include "onnx/schema.pb.h"

namespace halfeven::onnx {

/// Throw Error{code}: "truncated or invalid protobuf", the size, and the byte where the outermost broken field starts.
/// A model is also refused before memory is taken if it has more bytes or nodes than `limits` allow.
/// `passed`, if given, is called for every part of the bytes that will not be looked at again.
onnx_schema::ModelProto parse_model(std::span<const std::byte> bytes, const Limits& limits,
                                    void (*passed)(std::span<const std::byte> part) = nullptr);
onnx_schema::TensorProto parse_tensor(std::span<const std::byte> bytes, const Limits& limits);

}  // namespace halfeven::onnx
