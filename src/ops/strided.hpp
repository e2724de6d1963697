// Index lists for operators that walk their input with a step along each axis.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/common.hpp"

namespace halfeven::ops {

/// For each element of a tensor of shape `out` (C order) the number offset + sum over k of position[k] * steps[k],
/// which the caller knows to be the index of an element.
std::vector<std::size_t> strided_indices(const Shape& out, std::int64_t offset, const std::vector<std::int64_t>& steps);

/// Element strides of a C-ordered tensor, signed.
std::vector<std::int64_t> signed_strides(const Shape& shape);

/// Input i as integers where they are known: always in evaluation, if they are constant in inference.
inline std::optional<std::vector<std::int64_t>> known_ints(const InferContext& c, std::size_t i) {
  return c.constant_ints(i);
}
inline std::optional<std::vector<std::int64_t>> known_ints(const EvalContext& c, std::size_t i) {
  if (!c.has_input(i)) return std::nullopt;
  return c.ints(i);
}

/// The length of the rank-1 input i (-1 where it is not known). Throws unless its rank is 1 and its type int64 or
/// int32.
std::int64_t list_length(const InferContext& c, std::size_t i);

/// The sum a + b of sizes; fails where it overflows.
std::int64_t add_sizes(const NodeReader& node, std::int64_t a, std::int64_t b);

/// The product a * b of sizes; fails where it overflows.
std::int64_t multiply_sizes(const NodeReader& node, std::int64_t a, std::int64_t b);

}  // namespace halfeven::ops
