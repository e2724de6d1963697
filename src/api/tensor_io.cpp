#include <halfeven/tensor_io.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <fstream>
#include <limits>
#include <system_error>
#include <vector>

#include <halfeven/error.hpp>

#include "onnx/import.hpp"

namespace halfeven {

Tensor load_tensor(const std::filesystem::path& path, const Limits& limits, std::string* name) {
  const auto refuse = [&](const std::string& why) {
    return Error(ErrorCode::input, fmt::format("'{}': {}", path.string(), why));
  };
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) throw refuse("no such file");
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) throw refuse("cannot be read: " + error.message());
  // What a protobuf message can have at most.
  constexpr std::uint64_t kMaxMessage = std::numeric_limits<std::int32_t>::max();
  if (size > kMaxMessage) throw refuse(fmt::format("{} bytes are more than a TensorProto can have", size));
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  std::ifstream file(path, std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size))) {
    throw refuse("cannot be read");
  }
  try {
    return onnx::import_tensor(bytes, limits, name);
  } catch (const Error& cause) {
    throw refuse(cause.what());
  }
}

}  // namespace halfeven
