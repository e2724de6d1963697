// Reading ONNX files into graphs. This folder is the only place that sees protobuf.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include <halfeven/tensor.hpp>
#include <halfeven/types.hpp>

#include "ir/graph.hpp"

namespace halfeven::onnx {

/// Reads a model file: opsets 7 to 28 of ai.onnx, local functions inlined (those of domain "halfeven" are groups and
/// tables), structure checked. External data is mapped from the file's own folder. Throws Error{other} if the file
/// cannot be opened and Error{model}, naming what and where, if it is not a model that can be represented. Operators
/// are not looked at: the operator table does that.
ir::Graph import_model(const std::filesystem::path& path, const Limits& limits = {});

/// The same from memory. External data is looked for in `folder`; with an empty one it is an error.
ir::Graph import_model(std::span<const std::byte> bytes, const Limits& limits = {},
                       const std::filesystem::path& folder = {});

/// Reads a TensorProto that stands alone (ONNX's .pb test inputs). Stores its name in `name`, if given. Throws
/// Error{input}.
Tensor import_tensor(std::span<const std::byte> bytes, const Limits& limits = {}, std::string* name = nullptr);

}  // namespace halfeven::onnx
