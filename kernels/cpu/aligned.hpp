// Bytes at a multiple of 64: loads of packed weights do not cross cache lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace halfeven::kernels {

class AlignedBytes {
 public:
  AlignedBytes() = default;
  /// Zeros.
  explicit AlignedBytes(std::size_t size) : storage_(size + 64, 0), size_(size) {
    void* p = storage_.data();
    std::size_t space = storage_.size();
    offset_ = static_cast<std::size_t>(static_cast<std::int8_t*>(std::align(64, size, p, space)) - storage_.data());
  }
  AlignedBytes(AlignedBytes&&) noexcept = default;  // the storage stays where it is
  AlignedBytes& operator=(AlignedBytes&&) noexcept = default;
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;
  ~AlignedBytes() = default;

  std::int8_t* data() { return storage_.data() + offset_; }
  const std::int8_t* data() const { return storage_.data() + offset_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  std::vector<std::int8_t> storage_;
  std::size_t offset_ = 0;
  std::size_t size_ = 0;
};

}  // namespace halfeven::kernels
