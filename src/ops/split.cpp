// Split (ai.onnx 2: attribute; 13: input; 18: num_outputs): passes on (contract section 1, rule 4).
#include <fmt/format.h>

#include "ops/strided.hpp"

namespace halfeven::ops {
namespace {

// Lengths along the axis where nothing gives them: equal, from version 18 with a shorter last one.
std::vector<std::int64_t> equal_parts(const NodeReader& node, std::int64_t length) {
  const auto parts = static_cast<std::int64_t>(node.outputs());
  const std::int64_t size = (length + parts - 1) / parts;
  const std::int64_t last = length - size * (parts - 1);
  if (last < 0 || (node.version() < 18 && last != size)) {
    node.fail(fmt::format("an axis of length {} cannot be split into {} parts", length, parts));
  }
  std::vector<std::int64_t> out(node.outputs(), size);
  out.back() = last;
  return out;
}

std::vector<TypeShape> infer(const InferContext& c) {
  std::optional<std::vector<std::int64_t>> parts;
  bool given = false;
  if (c.version() < 13) {
    given = c.has_attribute("split");
    parts = c.get_ints("split", {});
  } else if (c.has_input(1)) {
    list_length(c, 1);
    given = true;
    parts = c.constant_ints(1);
  }
  if (c.version() >= 18 && c.has_attribute("num_outputs")) {
    if (given) c.fail("both the input 'split' and the attribute 'num_outputs' are given");
    const std::int64_t n = c.get_int("num_outputs", 0);
    if (n < 0 || static_cast<std::size_t>(n) != c.outputs()) {
      c.fail(fmt::format("num_outputs is {}, but the node has {} outputs", n, c.outputs()));
    }
  }
  std::vector<TypeShape> out(c.outputs(), TypeShape{c.dtype(0), c.shape(0)});
  if (!c.shape(0)) return out;
  const std::size_t axis = normalize_axis(c, c.get_int("axis", 0), c.shape(0)->size());
  const std::int64_t length = (*c.shape(0))[axis];
  if (!given && length >= 0) parts = equal_parts(c, length);
  if (!given && length < 0) parts.reset();
  if (parts) {
    std::int64_t sum = 0;
    for (const std::int64_t p : *parts) {
      if (p < 0) c.fail(fmt::format("a part of length {} is negative", p));
      sum = add_sizes(c, sum, p);
    }
    if (parts->size() != c.outputs() || (length >= 0 && sum != length)) {
      c.fail(fmt::format("{} parts that sum to {} do not split an axis of length {} into {} outputs", parts->size(),
                         sum, length, c.outputs()));
    }
  }
  for (std::size_t k = 0; k < out.size(); ++k) (*out[k].shape)[axis] = parts ? (*parts)[k] : kUnknownDim;
  return out;
}

std::vector<Data> split(const EvalContext& c) {
  const Shape& in = c.input(0).shape();
  const std::size_t axis = normalize_axis(c, c.get_int("axis", 0), in.size());
  const std::vector<std::int64_t> strides = signed_strides(in);
  std::vector<Data> out;
  std::int64_t first = 0;
  for (std::size_t k = 0; k < c.outputs(); ++k) {
    const Shape& shape = c.result_shape(k);
    out.push_back(gather(c.input(0), shape, strided_indices(shape, first * strides[axis], strides)));
    first += shape[axis];
  }
  return out;
}

}  // namespace

std::vector<Operator> split_operators() {
  return {{"", "Split", {2, 11, 13, 18}, 1, 2, kVariadic, infer, split, PassOn::first}};
}

}  // namespace halfeven::ops
