// What many operators share: shapes, broadcasting, integers of any width, elementwise evaluation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <type_traits>
#include <vector>

#include "ops/operator.hpp"

namespace halfeven::ops {

// --- shapes ----------------------------------------------------------------------------------------------------------

/// The axis in [0, rank); fails naming the operator's allowed range.
std::size_t normalize_axis(const NodeReader& node, std::int64_t axis, std::size_t rank, const char* what = "axis");

/// Several axes; repeated ones are refused.
std::vector<std::size_t> normalize_axes(const NodeReader& node, const std::vector<std::int64_t>& axes,
                                        std::size_t rank);

/// The product of dims[from, to), -1 if one is unknown; fails on overflow.
std::int64_t dim_product(const NodeReader& node, const Shape& shape, std::size_t from, std::size_t to);

/// NumPy broadcasting of shapes with unknown dimensions; nullopt if one rank is unknown. Fails where they do not fit.
std::optional<Shape> broadcast(const NodeReader& node, const std::vector<std::optional<Shape>>& shapes);

/// The number of elements from the axis inwards, outwards: shape = outer x axis x inner.
struct AxisSplit {
  std::size_t outer = 1;
  std::size_t length = 1;
  std::size_t inner = 1;
};
AxisSplit split_at(const Shape& shape, std::size_t axis);

/// Element strides of a C-ordered tensor.
std::vector<std::size_t> strides_of(const Shape& shape);

/// For each element of `to` (C order) the index of the element of `from` that broadcasts to it.
std::vector<std::size_t> broadcast_indices(const Shape& from, const Shape& to);

/// Counts through all positions of a shape in C order: `for (Odometer p(shape); p.more(); p.step()) p[axis]`.
class Odometer {
 public:
  explicit Odometer(Shape shape);
  bool more() const { return more_; }
  void step();
  std::int64_t operator[](std::size_t axis) const { return position_[axis]; }
  const std::vector<std::int64_t>& position() const { return position_; }

 private:
  Shape shape_;
  std::vector<std::int64_t> position_;
  bool more_;
};

// --- integers of any width -------------------------------------------------------------------------------------------

/// Calls f with a value of the C++ type that stores the type (integers and boolean; std::uint8_t for boolean,
/// uint4 and uint2, std::int8_t for int4 and int2).
template <class F>
decltype(auto) visit_integer(DType type, F f) {
  switch (type) {
    case DType::int8:
    case DType::int4:
    case DType::int2: return f(std::int8_t{});
    case DType::int16: return f(std::int16_t{});
    case DType::uint16: return f(std::uint16_t{});
    case DType::int32: return f(std::int32_t{});
    case DType::uint32: return f(std::uint32_t{});
    case DType::int64: return f(std::int64_t{});
    case DType::uint64: return f(std::uint64_t{});
    default: return f(std::uint8_t{});
  }
}

/// The elements of an integer or boolean tensor as int64 (uint64 wraps).
std::vector<std::int64_t> integers(const Tensor& t);
/// The reverse: each value wrapped to the type, as ONNX's integer types do (boolean: 0 or 1).
Tensor make_integers(DType type, Shape shape, std::span<const std::int64_t> values);
/// Wraps one value to an integer type.
std::int64_t wrap(DType type, std::int64_t value);

// --- whole tensors ---------------------------------------------------------------------------------------------------

/// Picks elements: element k of the result is element refs[k].index of sources[refs[k].source], for real and plain
/// tensors alike. All sources have the type `dtype`.
Data select(DType dtype, const Shape& shape, const std::vector<Data>& sources, std::vector<numerics::Ref> refs);
/// The same from one source.
Data gather(const Data& source, const Shape& shape, const std::vector<std::size_t>& indices);
/// The same elements under another shape.
Data reshape(const Data& source, const Shape& shape);

/// y[i] = f(x[i]) for a float input 0; f is generic over Approx and Real.
template <class F>
Data map_unary(const EvalContext& c, F f) {
  return numerics::make_elements(
      c.result_type(), c.result_shape(), c.threads(),
      [x = c.reals(0), f]<class N>(std::size_t i, std::type_identity<N>) -> N { return f(numerics::load<N>(*x, i)); });
}

/// y = f(a, b) with broadcasting for float inputs 0 and 1; f is generic over Approx and Real.
template <class F>
Data map_binary(const EvalContext& c, F f) {
  const Shape& out = c.result_shape();
  const auto& a = c.reals(0);
  const auto& b = c.reals(1);
  // Equal shapes need no index.
  auto ia = a->shape() == out ? std::vector<std::size_t>{} : broadcast_indices(a->shape(), out);
  auto ib = b->shape() == out ? std::vector<std::size_t>{} : broadcast_indices(b->shape(), out);
  return numerics::make_elements(
      c.result_type(), out, c.threads(),
      [a, b, ia = std::move(ia), ib = std::move(ib), f]<class N>(std::size_t i, std::type_identity<N>) -> N {
        return f(numerics::load<N>(*a, ia.empty() ? i : ia[i]), numerics::load<N>(*b, ib.empty() ? i : ib[i]));
      });
}

/// y = f(a, b) with broadcasting for integer inputs 0 and 1 of one type: f works on int64 (uint64 values as their
/// bits), the result wraps to the output's type.
Data map_integers(const EvalContext& c, const std::function<std::int64_t(std::int64_t, std::int64_t)>& f);

/// One output of the type and shape of input 0.
std::vector<TypeShape> infer_same(const InferContext& c);
/// The same, for float operators: input 0 must be a float tensor.
std::vector<TypeShape> infer_same_float(const InferContext& c);
/// One output: the broadcast of all inputs, which have one type.
std::vector<TypeShape> infer_broadcast(const InferContext& c);

}  // namespace halfeven::ops
