// ScatterElements and ScatterND (ai.onnx 11; reductions since 16): the data with some elements replaced, or combined
// with their updates. Without reduction the last of several updates of one element in C order stays.
#include <array>
#include <memory>

#include <fmt/format.h>

#include "ops/common.hpp"

namespace halfeven::ops {
namespace {

void check(const InferContext& c) {
  c.require_type(1, {DType::int64, DType::int32});
  c.require_same_type(0, 2);
  const std::string reduction = c.get_string("reduction", "none");
  constexpr std::array known{"none", "add", "mul", "min", "max"};
  if (std::find(known.begin(), known.end(), reduction) == known.end()) {
    c.fail(fmt::format("reduction '{}' is not supported (none, add, mul, min, max)", reduction));
  }
  if (reduction != "none" && !is_float(c.dtype(0)) && !is_integer(c.dtype(0))) {
    c.fail(fmt::format("reduction '{}' of {} is not supported", reduction, to_string(c.dtype(0))));
  }
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

// Update `from` goes to element `to` of the data.
struct Move {
  std::size_t to;
  std::size_t from;
};

Data replace(const EvalContext& c, const std::vector<Move>& moves) {
  std::vector<numerics::Ref> refs(c.input(0).size());
  for (std::size_t i = 0; i < refs.size(); ++i) refs[i] = {0, i};
  for (const Move& m : moves) refs[m.to] = {1, m.from};
  return select(c.result_type(), c.result_shape(), {c.input(0), c.input(2)}, std::move(refs));
}

template <class N>
N combined(const std::string& reduction, const N& a, const N& b) {
  using std::max;
  using std::min;
  if (reduction == "add") return a + b;
  if (reduction == "mul") return a * b;
  return reduction == "max" ? max(a, b) : min(a, b);
}

Data reduce_integers(const EvalContext& c, const std::string& reduction, const std::vector<Move>& moves) {
  std::vector<std::int64_t> values = c.ints(0);
  const std::vector<std::int64_t> updates = c.ints(2);
  // As unsigned numbers the arithmetic wraps, and uint64 keeps its order.
  const bool ordered_unsigned = c.result_type() == DType::uint64;
  for (const Move& m : moves) {
    const std::int64_t a = values[m.to];
    const std::int64_t b = updates[m.from];
    if (reduction == "add" || reduction == "mul" || ordered_unsigned) {
      values[m.to] =
          static_cast<std::int64_t>(combined(reduction, static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)));
    } else {
      values[m.to] = combined(reduction, a, b);
    }
  }
  return make_integers(c.result_type(), c.result_shape(), values);
}

// The exact sum, product, least or greatest of an element and all its updates, rounded once.
Data reduce_reals(const EvalContext& c, const std::string& reduction, const std::vector<Move>& moves) {
  // The updates of element i are sources[first[i]] to sources[first[i + 1]].
  const std::size_t n = c.input(0).size();
  auto first = std::make_shared<std::vector<std::size_t>>(n + 1);
  auto sources = std::make_shared<std::vector<std::size_t>>(moves.size());
  for (const Move& m : moves) ++(*first)[m.to + 1];
  for (std::size_t i = 0; i < n; ++i) (*first)[i + 1] += (*first)[i];
  std::vector<std::size_t> next(first->begin(), first->end() - 1);
  for (const Move& m : moves) (*sources)[next[m.to]++] = m.from;
  return numerics::make_elements(c.result_type(), c.result_shape(), c.threads(),
                                 [data = c.reals(0), updates = c.reals(2), first, sources, reduction]<class N>(
                                     std::size_t i, std::type_identity<N>) -> N {
                                   N value = numerics::load<N>(*data, i);
                                   for (std::size_t k = (*first)[i]; k < (*first)[i + 1]; ++k) {
                                     value = combined(reduction, value, numerics::load<N>(*updates, (*sources)[k]));
                                   }
                                   return value;
                                 });
}

std::vector<Data> scattered(const EvalContext& c, const std::vector<Move>& moves) {
  const std::string reduction = c.get_string("reduction", "none");
  if (reduction == "none") return {replace(c, moves)};
  return {is_float(c.result_type()) ? reduce_reals(c, reduction, moves) : reduce_integers(c, reduction, moves)};
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
  std::vector<Move> moves;
  moves.reserve(indices.size());
  std::size_t n = 0;
  for (Odometer p(c.input(1).shape()); p.more(); p.step(), ++n) {
    std::size_t to = checked(c, indices[n], data[axis]) * strides[axis];
    for (std::size_t k = 0; k < data.size(); ++k) {
      if (k != axis) to += static_cast<std::size_t>(p[k]) * strides[k];
    }
    moves.push_back({to, n});
  }
  return scattered(c, moves);
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
  std::vector<Move> moves;
  moves.reserve(updates);
  for (std::size_t t = 0; t * inner < updates; ++t) {
    std::size_t to = 0;
    for (std::size_t k = 0; k < depth; ++k) to += checked(c, indices[t * depth + k], data[k]) * strides[k];
    for (std::size_t i = 0; i < inner; ++i) moves.push_back({to + i, t * inner + i});
  }
  return scattered(c, moves);
}

}  // namespace

std::vector<Operator> scatter_operators() {
  return {
      {"", "ScatterElements", {11, 13, 16, 18}, 3, 3, 1, infer_elements, scatter_elements},
      {"", "ScatterND", {11, 13, 16, 18}, 3, 3, 1, infer_nd, scatter_nd},
  };
}

}  // namespace halfeven::ops
