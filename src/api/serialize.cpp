// serialize and save: models as ONNX files.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>

#include <fmt/format.h>

#include <halfeven/halfeven.hpp>

#include "api/model_impl.hpp"
#include "ir/quote.hpp"
#include "onnx/export.hpp"

namespace halfeven {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, int error) {
  throw Error(ErrorCode::other, fmt::format("cannot write {}: {}", ir::quote(path.string()), std::strerror(error)));
}

// Writes all bytes and closes the file; 0 or the system's error number.
int write_and_close(int file, std::span<const std::byte> bytes) {
  int error = 0;
  while (error == 0 && !bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (::close(file) != 0 && error == 0) error = errno;
  return error;
}

// A new file beside `path`.
int create_beside(const std::filesystem::path& path, std::filesystem::path& created) {
  static std::atomic<unsigned> counter{0};
  for (;;) {
    created = path;
    created += fmt::format(".{}-{}.tmp", ::getpid(), counter++);
    const int file = ::open(created.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file >= 0) return file;
    if (errno != EEXIST) fail(path, errno);
  }
}

}  // namespace

std::vector<std::byte> serialize(const Model& model) { return onnx::export_model(model.impl().graph); }

void save(const Model& model, const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = serialize(model);
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    // A device or a pipe takes the bytes; a rename would replace it.
    const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    const int error = file < 0 ? errno : write_and_close(file, bytes);
    if (error != 0) fail(path, error);
    return;
  }
  std::filesystem::path target = path;
  if (std::filesystem::is_symlink(path, ignored) && std::filesystem::exists(status)) {
    target = std::filesystem::canonical(path, ignored);
    if (ignored) fail(path, ignored.value());
  }
  // Whoever reads `path` meanwhile, sees the old file or the new one.
  std::filesystem::path fresh;
  int error = write_and_close(create_beside(target, fresh), bytes);
  if (error == 0 && ::rename(fresh.c_str(), target.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(fresh.c_str());
    fail(path, error);
  }
}

}  // namespace halfeven
