// ScatterElements and ScatterND (ai.onnx 11) without reduction: the data with some elements replaced; of several
// updates of one element the last in C order stays.
#include <fmt/format.h>

#include "ops/common.hpp"

namespace halfeven::ops {
namespace {

void check(const InferContext& c) {
  c.require_type(1, {DType::int64, DType::int32});
  c.require_same_type(0, 2);
  const std::string reduction = c.get_string("reduction", "none");
  if (reduction != "none") c.fail(fmt::format("reduction '{}' is not supported", reduction));
}

bool differ(std::int64_t a, std::int64_t b) { return a >= 0 && b >= 0 && a != b; }

std::size_t checked(const EvalContext& c, std::int64_t index, std::int64_t length) {
  const std::int64_t i = index < 0 ? index + length : index;
  if (i < 0 || i >= length) {
    c.fail_input(
        fmt::format("index {} in '{}' is out of range for an axis of length {}", index, c.input_name(1), length));
  }
  return static_cast<std::size_t>(i);
}

// Refs to every element of the data.
std::vector<numerics::Ref> untouched(const EvalContext& c) {
  std::vector<numerics::Ref> refs(c.input(0).size());
  for (std::size_t i = 0; i < refs.size(); ++i) refs[i] = {0, i};
  return refs;
}

std::vector<TypeShape> infer_elements(const InferContext& c) {
  check(c);
  const auto& data = c.shape(0);
  const auto& indices = c.shape(1);
  const auto& updates = c.shape(2);
  if (data) {
    const std::size_t axis = normalize_axis(c, c.get_int("axis", 0), data->size());
    c.require_rank(1, data->size(), data->size());
    c.require_rank(2, data->size(), data->size());
    for (std::size_t k = 0; indices && k < data->size(); ++k) {
      if (k != axis && (*data)[k] >= 0 && (*indices)[k] > (*data)[k]) {
        c.fail(
            fmt::format("the indices {} exceed the data {} along axis {}", to_string(*indices), to_string(*data), k));
      }
      if (updates && differ((*indices)[k], (*updates)[k])) {
        c.fail(fmt::format("indices {} and updates {} differ in shape", to_string(*indices), to_string(*updates)));
      }
    }
  }
  return {c.type(0)};
}

std::vector<Data> scatter_elements(const EvalContext& c) {
  const Shape& data = c.input(0).shape();
  const std::size_t axis = normalize_axis(c, c.get_int("axis", 0), data.size());
  const std::vector<std::size_t> strides = strides_of(data);
  const std::vector<std::int64_t> indices = c.ints(1);
  std::vector<numerics::Ref> refs = untouched(c);
  std::size_t n = 0;
  for (Odometer p(c.input(1).shape()); p.more(); p.step(), ++n) {
    std::size_t to = checked(c, indices[n], data[axis]) * strides[axis];
    for (std::size_t k = 0; k < data.size(); ++k) {
      if (k != axis) to += static_cast<std::size_t>(p[k]) * strides[k];
    }
    refs[to] = {1, n};
  }
  return {select(c.result_type(), data, {c.input(0), c.input(2)}, std::move(refs))};
}

std::vector<TypeShape> infer_nd(const InferContext& c) {
  check(c);
  c.require_rank(0, 1, SIZE_MAX);
  c.require_rank(1, 1, SIZE_MAX);
  const auto& data = c.shape(0);
  const auto& indices = c.shape(1);
  if (!data || !indices || indices->back() < 0) return {c.type(0)};
  const std::int64_t depth = indices->back();
  if (static_cast<std::size_t>(depth) > data->size()) {
    c.fail(fmt::format("the last dimension of the indices {} exceeds the rank of the data {}", to_string(*indices),
                       to_string(*data)));
  }
  Shape wanted(indices->begin(), indices->end() - 1);
  wanted.insert(wanted.end(), data->begin() + depth, data->end());
  c.require_rank(2, wanted.size(), wanted.size());
  for (std::size_t k = 0; c.shape(2) && k < wanted.size(); ++k) {
    if (differ(wanted[k], (*c.shape(2))[k])) {
      c.fail(fmt::format("the updates have shape {} instead of {}", to_string(*c.shape(2)), to_string(wanted)));
    }
  }
  return {c.type(0)};
}

std::vector<Data> scatter_nd(const EvalContext& c) {
  const Shape& data = c.input(0).shape();
  const auto depth = static_cast<std::size_t>(c.input(1).shape().back());
  const std::vector<std::size_t> strides = strides_of(data);
  const std::vector<std::int64_t> indices = c.ints(1);
  const std::size_t inner = depth == 0 ? c.input(0).size() : strides[depth - 1];
  const std::size_t updates = c.input(2).size();
  std::vector<numerics::Ref> refs = untouched(c);
  for (std::size_t t = 0; t * inner < updates; ++t) {
    std::size_t to = 0;
    for (std::size_t k = 0; k < depth; ++k) to += checked(c, indices[t * depth + k], data[k]) * strides[k];
    for (std::size_t i = 0; i < inner; ++i) refs[to + i] = {1, t * inner + i};
  }
  return {select(c.result_type(), data, {c.input(0), c.input(2)}, std::move(refs))};
}

}  // namespace

std::vector<Operator> scatter_operators() {
  return {
      {"", "ScatterElements", {11, 13, 16, 18}, 3, 3, 1, infer_elements, scatter_elements},
      {"", "ScatterND", {11, 13, 16, 18}, 3, 3, 1, infer_nd, scatter_nd},
  };
}

}  // namespace halfeven::ops
