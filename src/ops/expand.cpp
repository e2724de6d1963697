// Expand (ai.onnx 8) and Tile (ai.onnx 6): pass on (contract section 1, rule 4).
#include <fmt/format.h>

#include "ops/strided.hpp"

namespace halfeven::ops {
namespace {

std::vector<TypeShape> infer_expand(const InferContext& c) {
  const std::int64_t length = list_length(c, 1);
  std::optional<Shape> request = c.constant_ints(1);
  if (request) {
    for (const std::int64_t n : *request) {
      if (n < 0) c.fail(fmt::format("the shape holds {}", n));
    }
  } else if (length > 64) {
    c.fail(fmt::format("a shape of rank {} is not supported", length));
  } else if (length >= 0) {
    request = Shape(static_cast<std::size_t>(length), kUnknownDim);
  }
  return {{c.dtype(0), broadcast(c, {c.shape(0), request})}};
}

std::vector<Data> expand(const EvalContext& c) {
  return {gather(c.input(0), c.result_shape(), broadcast_indices(c.input(0).shape(), c.result_shape()))};
}

std::vector<TypeShape> infer_tile(const InferContext& c) {
  const std::int64_t length = list_length(c, 1);
  if (!c.shape(0)) return {{c.dtype(0), std::nullopt}};
  Shape out = *c.shape(0);
  if (length >= 0 && static_cast<std::size_t>(length) != out.size()) {
    c.fail(fmt::format("{} repeats do not fit a rank-{} input", length, out.size()));
  }
  const auto repeats = c.constant_ints(1);
  for (std::size_t k = 0; k < out.size(); ++k) {
    if (!repeats) {
      out[k] = kUnknownDim;
      continue;
    }
    if ((*repeats)[k] < 0) c.fail(fmt::format("the repeat {} along axis {} is negative", (*repeats)[k], k));
    if (out[k] >= 0) out[k] = multiply_sizes(c, out[k], (*repeats)[k]);
  }
  return {{c.dtype(0), out}};
}

std::vector<Data> tile(const EvalContext& c) {
  const Shape& in = c.input(0).shape();
  const Shape& out = c.result_shape();
  const std::vector<std::size_t> strides = strides_of(in);
  std::vector<std::size_t> from;
  from.reserve(element_count(out));
  for (Odometer p(out); p.more(); p.step()) {
    std::size_t index = 0;
    for (std::size_t k = 0; k < in.size(); ++k) index += static_cast<std::size_t>(p[k] % in[k]) * strides[k];
    from.push_back(index);
  }
  return {gather(c.input(0), out, from)};
}

}  // namespace

std::vector<Operator> expand_operators() {
  return {
      {"", "Expand", {8, 13}, 2, 2, 1, infer_expand, expand, PassOn::first},
      {"", "Tile", {6, 13}, 2, 2, 1, infer_tile, tile, PassOn::first},
  };
}

}  // namespace halfeven::ops
