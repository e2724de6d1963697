// Tensor: a typed, shaped, immutable view of memory that somebody owns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <halfeven/types.hpp>

namespace halfeven {

/// A dense tensor in C order, little endian. 4-bit and 2-bit elements take one byte each (sign-extended for int4 and
/// int2), boolean one byte (0 or 1). Copies share the memory. The bytes do not change once a Tensor holds them.
class Tensor {
 public:
  /// An empty tensor of undefined type.
  Tensor() = default;

  /// Copies `bytes`. Throws Error{usage} if their number is not that of the type and shape.
  static Tensor copy(DType type, Shape shape, std::span<const std::byte> bytes);

  /// Takes `bytes` over. Throws like copy().
  static Tensor own(DType type, Shape shape, std::vector<std::byte> bytes);

  /// Looks at memory of the caller, which must outlive every copy of the tensor unless `owner` keeps it alive.
  /// Throws like copy().
  static Tensor view(DType type, Shape shape, std::span<const std::byte> bytes,
                     std::shared_ptr<const void> owner = nullptr);

  /// Copies typed values; T is the C++ type of `type` (float for float32, std::int8_t for int8, int4 and int2 ...).
  template <class T>
  static Tensor of(DType type, Shape shape, std::span<const T> values) {  // NOLINT(performance-unnecessary-value-param)
    return copy(type, std::move(shape), std::as_bytes(values));
  }

  DType dtype() const noexcept { return type_; }
  const Shape& shape() const noexcept { return shape_; }
  std::size_t rank() const noexcept { return shape_.size(); }
  std::size_t size() const noexcept { return size_; }  ///< number of elements
  std::span<const std::byte> bytes() const noexcept { return {data_, size_ * storage_size(type_)}; }
  const std::byte* data() const noexcept { return data_; }

  /// The elements as T. The caller knows that T fits the type.
  template <class T>
  std::span<const T> values() const noexcept {
    return {reinterpret_cast<const T*>(data_), size_};
  }

  /// The same memory under another shape of as many elements (Error{usage} otherwise).
  Tensor reshaped(Shape shape) const;

  /// True if type, shape and every bit agree.
  friend bool identical(const Tensor& a, const Tensor& b);

 private:
  DType type_ = DType::undefined;
  Shape shape_;
  std::size_t size_ = 0;
  const std::byte* data_ = nullptr;
  std::shared_ptr<const void> owner_;
};

bool identical(const Tensor& a, const Tensor& b);

/// Number of elements of a shape without unknown dimensions. Throws Error{usage} on a negative dimension and where the
/// product does not fit a signed 64-bit integer.
std::size_t element_count(const Shape& shape);

/// The first 16 hex digits of the SHA-256 of the tensor's bytes (little endian, C order, 4-bit as one byte each).
std::string hash(const Tensor& tensor);

}  // namespace halfeven
