// A file mapped read-only.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace halfeven::onnx {

/// The bytes of a regular file, as long as the object lives.
class MappedFile {
 public:
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  /// Maps the file. Gives nullptr and a reason ("does not exist", "is not a regular file" ...) if that is not
  /// possible. With `follow_link` false a symbolic link as the last part of the path is refused.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path, bool follow_link,
                                                std::string& reason);

  std::span<const std::byte> bytes() const { return {data_, size_}; }

  /// Tells the system that a part of some mapped file will hardly be read again, so that it need not stay in memory.
  static void let_go(std::span<const std::byte> part);

 private:
  MappedFile(const std::byte* data, std::size_t size) : data_(data), size_(size) {}

  const std::byte* data_;
  std::size_t size_;
};

}  // namespace halfeven::onnx
