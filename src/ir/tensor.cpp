#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include <halfeven/error.hpp>
#include <halfeven/tensor.hpp>

#include "ir/sha256.hpp"

namespace halfeven {
namespace {

// Number of elements, after checking that `bytes` is the memory that type and shape need.
std::size_t checked_size(DType type, const Shape& shape, std::size_t bytes) {
  const std::size_t size = element_count(shape);
  const std::size_t storage = storage_size(type);
  if (storage == 0 && type != DType::undefined) {
    throw Error(ErrorCode::usage, fmt::format("tensors of type {} are not supported", to_string(type)));
  }
  // Dividing instead of multiplying cannot overflow.
  const bool fits = storage == 0 ? bytes == 0 : bytes % storage == 0 && bytes / storage == size;
  if (!fits) {
    throw Error(ErrorCode::usage, fmt::format("a tensor {}{} has {} elements of {} bytes, but {} bytes are given",
                                              to_string(type), to_string(shape), size, storage, bytes));
  }
  return size;
}

}  // namespace

Tensor Tensor::copy(DType type, Shape shape, std::span<const std::byte> bytes) {
  checked_size(type, shape, bytes.size());
  return own(type, std::move(shape), std::vector<std::byte>(bytes.begin(), bytes.end()));
}

Tensor Tensor::own(DType type, Shape shape, std::vector<std::byte> bytes) {
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return view(type, std::move(shape), *owner, owner);
}

Tensor Tensor::view(DType type, Shape shape, std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  Tensor tensor;
  tensor.size_ = checked_size(type, shape, bytes.size());
  tensor.type_ = type;
  tensor.shape_ = std::move(shape);
  tensor.data_ = bytes.data();
  tensor.owner_ = std::move(owner);
  return tensor;
}

Tensor Tensor::reshaped(Shape shape) const {
  if (element_count(shape) != size_) {
    throw Error(ErrorCode::usage, fmt::format("a tensor {} of {} elements cannot take the shape {}", to_string(shape_),
                                              size_, to_string(shape)));
  }
  Tensor tensor = *this;
  tensor.shape_ = std::move(shape);
  return tensor;
}

bool identical(const Tensor& a, const Tensor& b) {
  return a.type_ == b.type_ && a.shape_ == b.shape_ && a.size_ == b.size_ &&
         (a.data_ == b.data_ || a.bytes().empty() || std::memcmp(a.data_, b.data_, a.bytes().size()) == 0);
}

std::size_t element_count(const Shape& shape) {
  // Dimensions of zero are set aside: strides are products of the others, and those have to fit as well.
  std::int64_t product = 1;
  bool empty = false;
  for (const std::int64_t dim : shape) {
    if (dim < 0) throw Error(ErrorCode::usage, fmt::format("shape {} has a negative dimension", to_string(shape)));
    empty = empty || dim == 0;
    if (__builtin_mul_overflow(product, std::max<std::int64_t>(dim, 1), &product)) {
      throw Error(ErrorCode::usage, fmt::format("shape {} has more elements than 63 bits can count", to_string(shape)));
    }
  }
  return empty ? 0 : static_cast<std::size_t>(product);
}

std::string hash(const Tensor& tensor) { return ir::to_hex(ir::Sha256().bytes(tensor.bytes()).digest()).substr(0, 16); }

}  // namespace halfeven
