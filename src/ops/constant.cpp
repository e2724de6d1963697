// Constant (ai.onnx 1; scalar and list attributes since 12), ConstantOfShape (9), Range (11), Shape (1; start and end
// since 15), Size (1).
#include <fmt/format.h>

#include "ops/strided.hpp"

namespace halfeven::ops {
namespace {

// --- Constant --------------------------------------------------------------------------------------------------------

Tensor value_of(const NodeReader& node) {
  if (const auto value = node.get_tensor("value")) return *value;
  if (node.has_attribute("value_float")) {
    const float v = node.get_float("value_float", 0);
    return Tensor::of<float>(DType::float32, {}, std::span(&v, 1));
  }
  if (node.has_attribute("value_int")) {
    const std::int64_t v = node.get_int("value_int", 0);
    return Tensor::of<std::int64_t>(DType::int64, {}, std::span(&v, 1));
  }
  if (node.has_attribute("value_floats")) {
    const std::vector<float> v = node.get_floats("value_floats", {});
    return Tensor::of<float>(DType::float32, {static_cast<std::int64_t>(v.size())}, v);
  }
  if (node.has_attribute("value_ints")) {
    const std::vector<std::int64_t> v = node.get_ints("value_ints", {});
    return Tensor::of<std::int64_t>(DType::int64, {static_cast<std::int64_t>(v.size())}, v);
  }
  for (const char* name : {"sparse_value", "value_string", "value_strings"}) {
    if (node.has_attribute(name)) node.fail(fmt::format("attribute '{}' is not supported", name));
  }
  node.fail("an attribute that holds the value is missing");
}

std::vector<TypeShape> infer_constant(const InferContext& c) {
  const Tensor value = value_of(c);
  return {{value.dtype(), value.shape()}};
}

std::vector<Data> constant(const EvalContext& c) { return {value_of(c)}; }

// --- ConstantOfShape -------------------------------------------------------------------------------------------------

Tensor fill_of(const NodeReader& node) {
  const float zero = 0;
  const auto value = node.get_tensor("value");
  if (!value) return Tensor::of<float>(DType::float32, {1}, std::span(&zero, 1));
  if (value->size() != 1) node.fail("attribute 'value' must hold one element");
  return *value;
}

std::vector<TypeShape> infer_constant_of_shape(const InferContext& c) {
  const DType type = fill_of(c).dtype();
  const std::int64_t rank = list_length(c, 0);
  if (const auto shape = c.constant_ints(0)) {
    for (const std::int64_t n : *shape) {
      if (n < 0) c.fail_input(fmt::format("the shape holds {}", n));
    }
    dim_product(c, *shape, 0, shape->size());
    return {{type, *shape}};
  }
  if (rank < 0 || rank > 64) return {{type, std::nullopt}};
  return {{type, Shape(static_cast<std::size_t>(rank), kUnknownDim)}};
}

std::vector<Data> constant_of_shape(const EvalContext& c) {
  const Tensor fill = fill_of(c);
  const std::size_t width = storage_size(fill.dtype());
  std::vector<std::byte> bytes(element_count(c.result_shape()) * width);
  for (std::size_t i = 0; i < bytes.size(); i += width) std::memcpy(bytes.data() + i, fill.data(), width);
  return {Tensor::own(fill.dtype(), c.result_shape(), std::move(bytes))};
}

// --- Range -----------------------------------------------------------------------------------------------------------

using numerics::Rational;

// max(ceil((limit - start) / delta), 0), exactly.
std::int64_t range_length(const NodeReader& node, const Rational& start, const Rational& limit, const Rational& delta) {
  if (delta.is_zero()) node.fail_input("delta is 0");
  const mpz_class n = ((limit - start) / delta).ceil();
  if (sgn(n) <= 0) return 0;
  if (!n.fits_slong_p()) node.fail_input("the range has too many elements");
  return n.get_si();
}

void require_scalars(const InferContext& c) {
  c.require_type(
      0, {DType::float32, DType::float64, DType::int16, DType::int32, DType::int64, DType::float16, DType::bfloat16});
  for (std::size_t i = 0; i < 3; ++i) {
    c.require_same_type(0, i);
    c.require_rank(i, 0, 1);
  }
}

std::vector<TypeShape> infer_range(const InferContext& c) {
  require_scalars(c);
  std::vector<Rational> values;
  for (std::size_t i = 0; i < 3; ++i) {
    if (is_float(c.dtype(i))) {
      const auto v = c.constant_floats(i);
      if (v && v->size() == 1 && std::isfinite((*v)[0])) values.push_back(Rational::from_double((*v)[0]));
    } else if (const auto v = c.constant_ints(i); v && v->size() == 1) {
      values.emplace_back((*v)[0]);
    }
  }
  if (values.size() != 3) return {{c.dtype(0), Shape{kUnknownDim}}};
  return {{c.dtype(0), Shape{range_length(c, values[0], values[1], values[2])}}};
}

Rational scalar(const EvalContext& c, std::size_t i) {
  if (c.input(i).size() != 1) c.fail_input(fmt::format("'{}' must hold one element", c.input_name(i)));
  if (!c.reals(i)) return c.ints(i)[0];
  const numerics::Real value = c.reals(i)->exact(0);
  if (!value.is_rational()) c.fail_input(fmt::format("'{}' is not a finite number", c.input_name(i)));
  return value.rational();
}

std::vector<Data> range(const EvalContext& c) {
  const Rational start = scalar(c, 0);
  const Rational delta = scalar(c, 2);
  const std::int64_t n = range_length(c, start, scalar(c, 1), delta);
  const Shape out{n};
  if (n > (std::int64_t{1} << 40)) c.fail_input(fmt::format("a range of {} elements is not supported", n));
  if (is_float(c.result_type())) {
    return {numerics::make_elements(c.result_type(), out, c.threads(),
                                    [start, delta]<class N>(std::size_t i, std::type_identity<N>) -> N {
                                      const N k = numerics::number<N>(static_cast<double>(i));
                                      return numerics::number<N>(start) + k * numerics::number<N>(delta);
                                    })};
  }
  std::vector<std::int64_t> values(static_cast<std::size_t>(n));
  const auto first = static_cast<std::uint64_t>(c.ints(0)[0]);
  const auto step = static_cast<std::uint64_t>(c.ints(2)[0]);
  // Every element lies between start and limit; the product alone may wrap.
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<std::int64_t>(first + k * step);
  return {make_integers(c.result_type(), out, values)};
}

// --- Shape, Size -----------------------------------------------------------------------------------------------------

// The dimensions that Shape returns: [start, end), both limited to the rank.
Shape dims_of(const NodeReader& node, const Shape& shape) {
  const auto rank = static_cast<std::int64_t>(shape.size());
  const auto limit = [&](std::int64_t v) { return std::clamp<std::int64_t>(v < 0 ? v + rank : v, 0, rank); };
  const bool sliced = node.version() >= 15;
  const std::int64_t from = sliced ? limit(node.get_int("start", 0)) : 0;
  const std::int64_t to = sliced ? limit(node.get_int("end", rank)) : rank;
  return from < to ? Shape(shape.begin() + from, shape.begin() + to) : Shape{};
}

std::vector<TypeShape> infer_shape(const InferContext& c) {
  if (!c.shape(0)) return {{DType::int64, Shape{kUnknownDim}}};
  return {{DType::int64, Shape{static_cast<std::int64_t>(dims_of(c, *c.shape(0)).size())}}};
}

std::optional<Tensor> value_of_shape(const InferContext& c) {
  if (!c.shape(0)) return std::nullopt;
  const Shape dims = dims_of(c, *c.shape(0));
  if (std::any_of(dims.begin(), dims.end(), [](std::int64_t n) { return n < 0; })) return std::nullopt;
  return make_integers(DType::int64, {static_cast<std::int64_t>(dims.size())}, dims);
}

std::vector<Data> shape(const EvalContext& c) {
  return {make_integers(DType::int64, c.result_shape(), dims_of(c, c.input(0).shape()))};
}

std::vector<TypeShape> infer_size(const InferContext&) { return {{DType::int64, Shape{}}}; }

std::optional<Tensor> value_of_size(const InferContext& c) {
  if (!c.shape(0)) return std::nullopt;
  const std::int64_t n = dim_product(c, *c.shape(0), 0, c.shape(0)->size());
  if (n < 0) return std::nullopt;
  return make_integers(DType::int64, {}, std::span(&n, 1));
}

std::vector<Data> size(const EvalContext& c) {
  const auto n = static_cast<std::int64_t>(c.input(0).size());
  return {make_integers(DType::int64, {}, std::span(&n, 1))};
}

}  // namespace

std::vector<Operator> constant_operators() {
  return {
      {"", "Constant", {1, 9, 11, 12, 13, 19, 21, 23, 24, 25}, 0, 0, 1, infer_constant, constant},
      {"", "ConstantOfShape", {9, 20, 21, 23, 24, 25}, 1, 1, 1, infer_constant_of_shape, constant_of_shape},
      {"", "Range", {11, 27}, 3, 3, 1, infer_range, range},
      {"", "Shape", {1, 13, 15, 19, 21, 23, 24, 25}, 1, 1, 1, infer_shape, shape, PassOn::none, value_of_shape},
      {"", "Size", {1, 13, 19, 21, 23, 24, 25}, 1, 1, 1, infer_size, size, PassOn::none, value_of_size},
  };
}

}  // namespace halfeven::ops
