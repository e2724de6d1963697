// The com.microsoft operators on quantized tensors: QLinearAdd, QLinearMul, QLinearSigmoid, QLinearLeakyRelu,
// QLinearSoftmax, QLinearAveragePool, QLinearGlobalAveragePool, QLinearConcat. Each means DequantizeLinear -> operator
// -> QuantizeLinear with the one rounding of QuantizeLinear, under both contracts (sections 2 and 8). Scales and zero
// points are per tensor.
#include <fmt/format.h>

#include "ops/formulas.hpp"
#include "ops/pool.hpp"
#include "ops/quantize_linear.hpp"
#include "ops/softmax.hpp"

namespace halfeven::ops {
namespace {

using numerics::ExactPtr;
using numerics::number;

void require_code(const InferContext& c, std::size_t i) {
  if (!c.has_input(i)) c.fail(fmt::format("input {} (a quantized tensor) is missing", i));
  c.require_type(i, {DType::uint8, DType::int8, DType::uint16, DType::int16});
}

Data optional_input(const EvalContext& c, std::size_t i) { return c.has_input(i) ? c.input(i) : Data(); }

// Input x with scale and zero point behind it, as real numbers.
ExactPtr dequantized(const EvalContext& c, std::size_t x) {
  return dequantize(c, c.input(x), c.input(x + 1), optional_input(c, x + 2), {}, DType::float32);
}

// y by the scale at input `scale` and the zero point behind it.
std::vector<Data> quantized(const EvalContext& c, const ExactPtr& y, std::size_t scale) {
  return {quantize(c, *y, "the result", c.input(scale), optional_input(c, scale + 1), {}, c.result_type(), std::nullopt,
                   true, c.threads())};
}

// --- two tensors: A, A_scale, A_zero_point, B, B_scale, B_zero_point, C_scale, C_zero_point --------------------------

std::vector<TypeShape> infer_two(const InferContext& c) {
  require_code(c, 0);
  require_code(c, 3);
  c.require_same_type(0, 3);
  check_per_tensor(c, 1, c.dtype(0), false);
  check_per_tensor(c, 4, c.dtype(0), false);
  check_per_tensor(c, 6, c.dtype(0), true);
  return {{c.dtype(0), broadcast(c, {c.shape(0), c.shape(3)})}};
}

template <class F>
std::vector<Data> two(const EvalContext& c, F f) {
  return quantized(c, map_pairs(dequantized(c, 0), dequantized(c, 3), DType::float32, c.result_shape(), c.threads(), f),
                   6);
}

std::vector<Data> add(const EvalContext& c) {
  return two(c, [](const auto& a, const auto& b) { return a + b; });
}

std::vector<Data> mul(const EvalContext& c) {
  return two(c, [](const auto& a, const auto& b) { return a * b; });
}

// --- one tensor: X, X_scale, X_zero_point, Y_scale, Y_zero_point -----------------------------------------------------

std::vector<TypeShape> infer_one(const InferContext& c) {
  require_code(c, 0);
  check_per_tensor(c, 1, c.dtype(0), false);
  check_per_tensor(c, 3, c.dtype(0), true);
  return {c.type(0)};
}

std::vector<Data> sigmoid_node(const EvalContext& c) {
  const auto y = map_elements(dequantized(c, 0), DType::float32, c.threads(), [](const auto& x) { return sigmoid(x); });
  return quantized(c, y, 3);
}

std::vector<Data> leaky_relu(const EvalContext& c) {
  const double alpha = static_cast<double>(c.get_float("alpha", 0.01F));
  const auto y = map_elements(dequantized(c, 0), DType::float32, c.threads(), [alpha]<class N>(const N& x) -> N {
    return by_sign(x, std::identity{}, [&](const N& v) { return number<N>(alpha) * v; });
  });
  return quantized(c, y, 3);
}

// Attribute opset: the version of ONNX's Softmax that the node came from.
AxisSplit softmax_split(const NodeReader& c, const Shape& shape) {
  const std::size_t axis = normalize_axis(c, c.get_int("axis", -1), shape.size());
  return c.get_int("opset", 13) < 13 ? flattened_at(shape, axis) : split_at(shape, axis);
}

std::vector<TypeShape> infer_softmax(const InferContext& c) {
  if (c.shape(0)) normalize_axis(c, c.get_int("axis", -1), c.shape(0)->size());
  return infer_one(c);
}

std::vector<Data> softmax_node(const EvalContext& c) {
  const AxisSplit split = softmax_split(c, c.result_shape());
  return quantized(c, softmax(dequantized(c, 0), split, false, DType::float32, c.threads()), 3);
}

// --- pools -----------------------------------------------------------------------------------------------------------

bool channels_last(const NodeReader& c) { return c.get_int("channels_last", 0) != 0; }

Shape to_channels_first(Shape s) {
  std::rotate(s.begin() + 1, s.end() - 1, s.end());
  return s;
}

Shape to_channels_last(Shape s) {
  std::rotate(s.begin() + 1, s.begin() + 2, s.end());
  return s;
}

// Moves axis 1 to the end (`last`) or the last one to 1; `shape` is that of x.
ExactPtr move_channels(const ExactPtr& x, bool last) {
  const Shape& shape = x->shape();
  const Shape out = last ? to_channels_last(shape) : to_channels_first(shape);
  const std::size_t n = static_cast<std::size_t>(shape[0]);
  const std::size_t rows =
      last ? static_cast<std::size_t>(shape[1])
           : element_count(out) / std::max<std::size_t>(1, n * static_cast<std::size_t>(shape.back()));
  const std::size_t columns = n * rows == 0 ? 0 : x->size() / (n * rows);
  std::vector<std::size_t> indices;
  indices.reserve(x->size());
  for (std::size_t image = 0; image < n; ++image) {
    for (std::size_t q = 0; q < columns; ++q) {
      for (std::size_t p = 0; p < rows; ++p) indices.push_back((image * rows + p) * columns + q);
    }
  }
  return gather(Data(x), out, indices).reals;
}

std::vector<TypeShape> infer_pool(const InferContext& c, bool global) {
  c.require_rank(0, 3, 1000);
  infer_one(c);
  TypeShape y = c.type(0);
  if (!y.shape) return {y};
  const Shape first = channels_last(c) ? to_channels_first(*y.shape) : *y.shape;
  Shape out(first.size(), 1);
  if (global) {
    std::copy_n(first.begin(), 2, out.begin());
  } else {
    out = pooled_shape(first, read_pool_window(c, first));
  }
  y.shape = channels_last(c) ? to_channels_last(out) : out;
  return {y};
}

std::vector<TypeShape> infer_average(const InferContext& c) { return infer_pool(c, false); }
std::vector<TypeShape> infer_global(const InferContext& c) { return infer_pool(c, true); }

template <class F>
std::vector<Data> pool(const EvalContext& c, F f) {
  ExactPtr x = dequantized(c, 0);
  if (channels_last(c)) x = move_channels(x, false);
  ExactPtr y = f(x);
  if (channels_last(c)) y = move_channels(y, true);
  return quantized(c, y, 3);
}

std::vector<Data> average(const EvalContext& c) {
  return pool(c, [&](const ExactPtr& x) {
    const bool include_pad = c.get_int("count_include_pad", 0) != 0;
    return average_pool(x, read_pool_window(c, x->shape()), include_pad, DType::float32, c.threads());
  });
}

std::vector<Data> global_average(const EvalContext& c) {
  return pool(c, [&](const ExactPtr& x) { return global_average_pool(x, DType::float32, c.threads()); });
}

// --- QLinearConcat: Y_scale, Y_zero_point, then X, X_scale, X_zero_point for each tensor -----------------------------

std::vector<TypeShape> infer_concat(const InferContext& c) {
  if (c.inputs() < 5 || (c.inputs() - 2) % 3 != 0) {
    c.fail(fmt::format("{} inputs are given; Y_scale, Y_zero_point and three for each tensor are needed", c.inputs()));
  }
  if (!c.has_attribute("axis")) c.fail("attribute axis is missing");
  require_code(c, 2);
  check_per_tensor(c, 0, c.dtype(2), true);
  std::optional<Shape> out;
  bool known = true;
  for (std::size_t i = 2; i < c.inputs(); i += 3) {
    require_code(c, i);
    c.require_same_type(2, i);
    check_per_tensor(c, i + 1, c.dtype(i), false);
    if (!c.shape(i)) {
      known = false;
      continue;
    }
    const Shape& s = *c.shape(i);
    if (!out) {
      normalize_axis(c, c.get_int("axis", 0), s.size());
      out = s;
      continue;
    }
    const std::size_t axis = normalize_axis(c, c.get_int("axis", 0), out->size());
    bool fits = s.size() == out->size();
    for (std::size_t k = 0; fits && k < s.size(); ++k) {
      std::int64_t& d = (*out)[k];
      if (k != axis) {
        fits = d < 0 || s[k] < 0 || d == s[k];
        d = std::max(d, s[k]);
      } else if (d < 0 || s[k] < 0) {
        d = kUnknownDim;
      } else if (__builtin_add_overflow(d, s[k], &d)) {
        c.fail("the result is too large");
      }
    }
    if (!fits) {
      c.fail(fmt::format("'{}' of shape {} does not fit '{}' of shape {} along axis {}", c.input_name(i), to_string(s),
                         c.input_name(2), to_string(*c.shape(2)), axis));
    }
  }
  return {{c.dtype(2), known ? out : std::nullopt}};
}

std::vector<Data> concat(const EvalContext& c) {
  const Shape& shape = c.result_shape();
  const AxisSplit split = split_at(shape, normalize_axis(c, c.get_int("axis", 0), shape.size()));
  std::vector<Data> sources;
  for (std::size_t i = 2; i < c.input_count(); i += 3) sources.emplace_back(dequantized(c, i));
  std::vector<numerics::Ref> refs;
  refs.reserve(element_count(shape));
  for (std::size_t outer = 0; outer < split.outer; ++outer) {
    for (std::size_t s = 0; s < sources.size(); ++s) {
      const std::size_t run = split.outer == 0 ? 0 : sources[s].size() / split.outer;
      for (std::size_t k = 0; k < run; ++k) refs.push_back({static_cast<std::uint32_t>(s), outer * run + k});
    }
  }
  return quantized(c, select(DType::float32, shape, sources, std::move(refs)).reals, 0);
}

Operator one(std::string_view name, std::vector<Data> (*evaluate)(const EvalContext&),
             std::vector<TypeShape> (*infer)(const InferContext&) = infer_one) {
  return {"com.microsoft", name, {1}, 2, 5, 1, infer, evaluate};
}

}  // namespace

// Zero points may be left out between other inputs, so inference checks what must be there.
std::vector<Operator> microsoft_operators() {
  return {
      {"com.microsoft", "QLinearAdd", {1}, 2, 8, 1, infer_two, add},
      {"com.microsoft", "QLinearMul", {1}, 2, 8, 1, infer_two, mul},
      one("QLinearSigmoid", sigmoid_node),
      one("QLinearLeakyRelu", leaky_relu),
      one("QLinearSoftmax", softmax_node, infer_softmax),
      one("QLinearAveragePool", average, infer_average),
      one("QLinearGlobalAveragePool", global_average, infer_global),
      {"com.microsoft", "QLinearConcat", {1}, 1, kVariadic, 1, infer_concat, concat},
  };
}

}  // namespace halfeven::ops
