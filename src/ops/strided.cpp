#include "ops/strided.hpp"

#include <fmt/format.h>

namespace halfeven::ops {

std::vector<std::size_t> strided_indices(const Shape& out, std::int64_t offset,
                                         const std::vector<std::int64_t>& steps) {
  std::vector<std::size_t> indices;
  const std::size_t count = element_count(out);
  if (count == 0) return indices;
  indices.reserve(count);
  if (out.empty()) return {static_cast<std::size_t>(offset)};
  const std::size_t last = out.size() - 1;
  for (Odometer p(Shape(out.begin(), out.end() - 1)); p.more(); p.step()) {
    std::int64_t index = offset;
    for (std::size_t k = 0; k < last; ++k) index += p[k] * steps[k];
    for (std::int64_t j = 0; j < out[last]; ++j, index += steps[last]) {
      indices.push_back(static_cast<std::size_t>(index));
    }
  }
  return indices;
}

std::vector<std::int64_t> signed_strides(const Shape& shape) {
  const std::vector<std::size_t> strides = strides_of(shape);
  return {strides.begin(), strides.end()};
}

std::int64_t list_length(const InferContext& c, std::size_t i) {
  c.require_type(i, {DType::int64, DType::int32});
  c.require_rank(i, 1, 1);
  return c.has_input(i) && c.shape(i) ? (*c.shape(i))[0] : kUnknownDim;
}

std::int64_t add_sizes(const NodeReader& node, std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) node.fail(fmt::format("the size {} + {} is out of range", a, b));
  return sum;
}

std::int64_t multiply_sizes(const NodeReader& node, std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) node.fail(fmt::format("the size {} * {} is out of range", a, b));
  return product;
}

}  // namespace halfeven::ops
