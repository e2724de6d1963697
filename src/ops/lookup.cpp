// halfeven.Table 1: y = table[x - least value of x's type], for 8- and 16-bit x. What a chain of unary operators
// between DequantizeLinear and QuantizeLinear comes to.
#include <fmt/format.h>

#include "ops/common.hpp"

namespace halfeven::ops {
namespace {

std::vector<TypeShape> infer(const InferContext& c) {
  c.require_type(0, {DType::uint8, DType::int8, DType::uint16, DType::int16, DType::uint4, DType::int4});
  if (!is_integer(c.dtype(1))) c.fail(fmt::format("table '{}' must hold integers", c.input_name(1)));
  const std::int64_t entries = std::int64_t{1} << bits(c.dtype(0));
  if (c.shape(1) && *c.shape(1) != Shape{entries} && *c.shape(1) != Shape{kUnknownDim}) {
    c.fail(fmt::format("table '{}' has shape {}, but {} codes need [{}]", c.input_name(1), to_string(*c.shape(1)),
                       to_string(c.dtype(0)), entries));
  }
  return {{c.dtype(1), c.shape(0)}};
}

std::vector<Data> evaluate(const EvalContext& c) {
  const std::int64_t least = integer_min(c.input(0).dtype());
  std::vector<std::size_t> index;
  for (const std::int64_t q : c.ints(0)) index.push_back(static_cast<std::size_t>(q - least));
  return {gather(c.input(1), c.result_shape(), index)};
}

}  // namespace

std::vector<Operator> lookup_operators() { return {{"halfeven", "Table", {1}, 2, 2, 1, infer, evaluate}}; }

}  // namespace halfeven::ops
