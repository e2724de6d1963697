#include "cli/files.hpp"

#include <fmt/format.h>

#include <fstream>
#include <system_error>

#include <halfeven/error.hpp>

namespace halfeven::cli {

std::vector<std::byte> read_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw Error(ErrorCode::input, fmt::format("no such file: {}", in_quotes(path)));
  if (!std::filesystem::is_regular_file(status)) {
    throw Error(ErrorCode::input, fmt::format("{} is not a regular file", in_quotes(path)));
  }
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) throw Error(ErrorCode::input, fmt::format("cannot read {}: {}", in_quotes(path), error.message()));
  if (size > max_bytes) {
    throw Error(ErrorCode::input,
                fmt::format("{} has {} bytes, more than the limit of {}", in_quotes(path), size, max_bytes));
  }
  std::ifstream file(path, std::ios::binary);
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  if (!file || !file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()))) {
    throw Error(ErrorCode::input, fmt::format("cannot read {}", in_quotes(path)));
  }
  return bytes;
}

void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) throw Error(ErrorCode::other, fmt::format("cannot write {}", in_quotes(path)));
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  write_file(path, std::as_bytes(std::span(text)));
}

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += c;
    }
  }
  return result;
}

std::string in_quotes(const std::filesystem::path& path) { return fmt::format("'{}'", printable(path.string())); }

}  // namespace halfeven::cli
