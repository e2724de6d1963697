#include "onnx/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace halfeven::onnx {
namespace {

struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

std::string last_error() {
  return errno == ENOENT ? "does not exist" : "cannot be read: " + std::generic_category().message(errno);
}

}  // namespace

MappedFile::~MappedFile() {
  if (size_ > 0) ::munmap(const_cast<std::byte*>(data_), size_);
}

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path, bool follow_link,
                                                   std::string& reason) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | (follow_link ? 0 : O_NOFOLLOW))};
  struct stat status {};
  if (file.number < 0 || ::fstat(file.number, &status) != 0) {
    reason = last_error();
    return nullptr;
  }
  if (!S_ISREG(status.st_mode)) {
    reason = "is not a regular file";
    return nullptr;
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  const std::byte* data = nullptr;
  if (size > 0) {
    void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.number, 0);
    if (memory == MAP_FAILED) {
      reason = last_error();
      return nullptr;
    }
    data = static_cast<const std::byte*>(memory);
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(data, size));
}

void MappedFile::let_go(std::span<const std::byte> part) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(part.data());
  const std::uintptr_t first = (begin + page - 1) / page * page;
  const std::uintptr_t last = (begin + part.size()) / page * page;
  if (first < last) ::madvise(const_cast<std::byte*>(part.data()) + (first - begin), last - first, MADV_DONTNEED);
}

}  // namespace halfeven::onnx
