#include "verify/values.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "numerics/format.hpp"
#include "ops/common.hpp"

namespace halfeven::verification {
namespace {

bool has_float_values(DType type) { return is_float(type) || is_small_float(type); }

bool same_bits(const Tensor& a, const Tensor& b, std::size_t i) {
  const std::size_t width = storage_size(a.dtype());
  return std::memcmp(a.data() + i * width, b.data() + i * width, width) == 0;
}

std::int64_t integer_element(const Tensor& tensor, std::size_t i) {
  return ops::visit_integer(
      tensor.dtype(), [&]<class T>(T) -> std::int64_t { return static_cast<std::int64_t>(tensor.values<T>()[i]); });
}

// Bits of a float as a number that grows with the value.
std::int64_t ordered_bits(const Tensor& tensor, std::size_t i) {
  const auto order = [](std::int64_t bits, int width) {
    const std::int64_t sign = std::int64_t{1} << (width - 1);
    return (bits & sign) != 0 ? -(bits & (sign - 1)) : bits;
  };
  switch (storage_size(tensor.dtype())) {
    case 1: return order(tensor.values<std::uint8_t>()[i], 8);
    case 2: return order(tensor.values<std::uint16_t>()[i], 16);
    case 4: return order(tensor.values<std::uint32_t>()[i], 32);
    default: {
      const std::int64_t bits = tensor.values<std::int64_t>()[i];
      return bits < 0 ? -(bits & std::numeric_limits<std::int64_t>::max()) : bits;
    }
  }
}

}  // namespace

double element(const Tensor& tensor, std::size_t index) {
  if (has_float_values(tensor.dtype())) return numerics::decode_float(tensor.dtype(), tensor.data(), index);
  if (tensor.dtype() == DType::uint64) return static_cast<double>(tensor.values<std::uint64_t>()[index]);
  return static_cast<double>(integer_element(tensor, index));
}

std::string element_text(const Tensor& tensor, std::size_t index) {
  if (!has_float_values(tensor.dtype())) {
    return tensor.dtype() == DType::uint64 ? fmt::format("{}", tensor.values<std::uint64_t>()[index])
                                           : fmt::format("{}", integer_element(tensor, index));
  }
  const double value = element(tensor, index);
  return tensor.dtype() == DType::float64 ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(value));
}

std::vector<std::int64_t> position(const Shape& shape, std::size_t index) {
  std::vector<std::int64_t> out(shape.size());
  for (std::size_t k = shape.size(); k-- > 0;) {
    const auto length = static_cast<std::size_t>(shape[k]);
    out[k] = static_cast<std::int64_t>(index % length);
    index /= length;
  }
  return out;
}

std::string describe_difference(const Tensor& before, const Tensor& after) {
  if (before.dtype() != after.dtype()) {
    return fmt::format("type {} became {}", to_string(before.dtype()), to_string(after.dtype()));
  }
  if (before.shape() != after.shape()) {
    return fmt::format("shape {} became {}", to_string(before.shape()), to_string(after.shape()));
  }
  std::size_t wrong = 0;
  std::size_t first = 0;
  for (std::size_t i = before.size(); i-- > 0;) {
    if (same_bits(before, after, i)) continue;
    ++wrong;
    first = i;
  }
  if (wrong == 0) return "none";
  return fmt::format("{} of {} elements, the first is {}: {} became {}", wrong, before.size(),
                     to_string(position(before.shape(), first)), element_text(before, first),
                     element_text(after, first));
}

double ulps_between(const Tensor& a, const Tensor& b, std::size_t index) {
  if (std::isnan(element(a, index)) != std::isnan(element(b, index))) return std::numeric_limits<double>::infinity();
  return std::fabs(static_cast<double>(ordered_bits(a, index)) - static_cast<double>(ordered_bits(b, index)));
}

}  // namespace halfeven::verification
