// Tensors in files.
#pragma once

#include <filesystem>
#include <string>

#include <halfeven/tensor.hpp>

namespace halfeven {

/// Reads an ONNX TensorProto (`.pb`, as in ONNX's test data). `name` receives the tensor's name if it is given. Throws
/// Error{input} naming the file and what is wrong with it.
Tensor load_tensor(const std::filesystem::path& path, const Limits& limits = {}, std::string* name = nullptr);

}  // namespace halfeven
