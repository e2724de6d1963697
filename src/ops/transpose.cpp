// Transpose (ai.onnx 1): the axes in another order; passes on (contract section 1, rule 4).
#include <fmt/format.h>

#include "ops/strided.hpp"

namespace halfeven::ops {
namespace {

// The permutation, which is reversal where it is not given.
std::vector<std::size_t> permutation(const NodeReader& node, std::size_t rank) {
  std::vector<std::int64_t> reversed(rank);
  for (std::size_t k = 0; k < rank; ++k) reversed[k] = static_cast<std::int64_t>(rank - 1 - k);
  const std::vector<std::int64_t> perm = node.get_ints("perm", reversed);
  if (perm.size() != rank) {
    node.fail(fmt::format("attribute 'perm' has {} entries for a rank-{} input", perm.size(), rank));
  }
  return normalize_axes(node, perm, rank);
}

std::vector<TypeShape> infer(const InferContext& c) {
  if (!c.shape(0)) return {{c.dtype(0), std::nullopt}};
  Shape out;
  for (const std::size_t k : permutation(c, c.shape(0)->size())) out.push_back((*c.shape(0))[k]);
  return {{c.dtype(0), out}};
}

std::vector<Data> transpose(const EvalContext& c) {
  const Shape& in = c.input(0).shape();
  const std::vector<std::int64_t> strides = signed_strides(in);
  std::vector<std::int64_t> steps;
  for (const std::size_t k : permutation(c, in.size())) steps.push_back(strides[k]);
  return {gather(c.input(0), c.result_shape(), strided_indices(c.result_shape(), 0, steps))};
}

}  // namespace

std::vector<Operator> transpose_operators() {
  return {{"", "Transpose", {1, 13, 21, 23, 24, 25}, 1, 1, 1, infer, transpose, PassOn::first}};
}

}  // namespace halfeven::ops
