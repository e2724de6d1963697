// Whole files in memory, names made safe to print.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace halfeven::cli {

/// The bytes of a regular file. Throws Error{input} if it cannot be read or is larger than `max_bytes`.
std::vector<std::byte> read_file(const std::filesystem::path& path, std::uint64_t max_bytes);

/// Writes (and replaces) a file. Throws Error{other} if that fails.
void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_file(const std::filesystem::path& path, std::string_view text);

/// `text` on one line and without control characters: those print as \xNN. Names in a model are any bytes, and a
/// terminal obeys some of them.
std::string printable(std::string_view text);

/// 'path', printable.
std::string in_quotes(const std::filesystem::path& path);

}  // namespace halfeven::cli
