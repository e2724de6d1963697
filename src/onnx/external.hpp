// External data: tensors whose bytes lie in files beside the model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>

#include <halfeven/types.hpp>

#include "onnx/mapped_file.hpp"
#include "onnx/schema.pb.h"

namespace halfeven::onnx {

/// A part of an external file, and what keeps it in memory.
struct ExternalBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

/// The files of one model's folder, each mapped once. Nothing outside the folder is opened, whatever a location says.
class ExternalData {
 public:
  /// With an empty `folder` every location is refused.
  ExternalData(std::filesystem::path folder, const Limits& limits) : folder_(std::move(folder)), limits_(limits) {}

  /// The `needed` bytes that `proto` refers to. `what` is the tensor in messages: "initializer 'w'". Throws
  /// Error{model} where the location, the range or the file cannot be used.
  ExternalBytes read(const onnx_schema::TensorProto& proto, std::uint64_t needed, const std::string& what);

 private:
  std::shared_ptr<const MappedFile> open(const std::string& location, const std::string& what);

  std::filesystem::path folder_;
  const Limits& limits_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;  // by location
};

}  // namespace halfeven::onnx
