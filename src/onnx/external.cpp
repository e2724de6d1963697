#include "onnx/external.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include <halfeven/error.hpp>

#include "ir/quote.hpp"

namespace halfeven::onnx {
namespace {

namespace fs = std::filesystem;
using ir::quote;

[[noreturn]] void fail(const std::string& message) { throw Error(ErrorCode::model, message); }

struct Reference {
  std::string location;
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length;
};

std::uint64_t parse_count(const std::string& key, const std::string& text, const std::string& what) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) {
    fail(fmt::format("external data of {} has {} {}, which is not a number of bytes", what, key, quote(text)));
  }
  return number;
}

Reference parse_reference(const onnx_schema::TensorProto& proto, const std::string& what) {
  std::map<std::string, std::string> entries;
  for (const auto& entry : proto.external_data()) {
    if (!entries.emplace(entry.key(), entry.value()).second) {
      fail(fmt::format("external data of {} names {} twice", what, quote(entry.key())));
    }
  }
  if (!entries.contains("location")) fail(fmt::format("external data of {} has no location", what));
  Reference reference{entries["location"], 0, std::nullopt};
  if (entries.contains("offset")) reference.offset = parse_count("offset", entries["offset"], what);
  if (entries.contains("length")) reference.length = parse_count("length", entries["length"], what);
  return reference;
}

bool is_within(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

}  // namespace

std::shared_ptr<const MappedFile> ExternalData::open(const std::string& location, const std::string& what) {
  if (const auto known = files_.find(location); known != files_.end()) return known->second;
  const std::string where = fmt::format("external data location {} of {}", quote(location), what);
  if (folder_.empty()) fail(where + " cannot be used: the model was given without a folder");
  if (location.empty() || location.find('\0') != std::string::npos) fail(where + " is not a file name");
  const fs::path relative(location);
  if (relative.is_absolute()) fail(where + " is an absolute path; it has to be relative to the model's folder");
  if (const fs::path normal = relative.lexically_normal(); *normal.begin() == "..") {
    fail(where + " escapes the model's folder");
  }

  // Links are resolved before the comparison, so that none can lead outside.
  std::error_code error;
  const fs::path folder = fs::canonical(folder_, error);
  if (error) fail(fmt::format("{} cannot be used: the model's folder cannot be read: {}", where, error.message()));
  const fs::path resolved = fs::canonical(folder / relative, error);
  if (error == std::errc::no_such_file_or_directory) fail(where + " does not exist");
  if (error) fail(fmt::format("{} cannot be read: {}", where, error.message()));
  if (!is_within(resolved, folder)) fail(where + " escapes the model's folder through a symbolic link");

  std::string reason;
  auto file = MappedFile::open(resolved, false, reason);
  if (!file) fail(fmt::format("{} {}", where, reason));
  if (file->bytes().size() > limits_.external_bytes) {
    fail(
        fmt::format("{} has {} bytes, more than the limit of {}", where, file->bytes().size(), limits_.external_bytes));
  }
  files_.emplace(location, file);
  return file;
}

ExternalBytes ExternalData::read(const onnx_schema::TensorProto& proto, std::uint64_t needed, const std::string& what) {
  const Reference reference = parse_reference(proto, what);
  const auto file = open(reference.location, what);
  const std::uint64_t length = reference.length.value_or(needed);
  const std::uint64_t size = file->bytes().size();
  if (reference.offset > size || length > size - reference.offset) {
    // The end may not fit 64 bits, so it is named only when it does.
    std::uint64_t end = 0;
    const bool overflow = __builtin_add_overflow(reference.offset, length, &end);
    fail(fmt::format("external data of {} reads bytes {}..{} of {}, which has {} bytes", what, reference.offset,
                     overflow ? "(beyond 64 bits)" : std::to_string(end), quote(reference.location), size));
  }
  if (length != needed) {
    fail(fmt::format("external data of {} in {} has length {}, but the tensor's type and dimensions take {} bytes",
                     what, quote(reference.location), length, needed));
  }
  return {file->bytes().subspan(reference.offset, length), file};
}

}  // namespace halfeven::onnx
