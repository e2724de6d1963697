// Conv (ai.onnx 1, 11, 22), ConvTranspose (1, 11, 22), ConvInteger (10), QLinearConv (10): any number of spatial
// dimensions, groups, strides, dilations, padding with zero (the zero point of quantized tensors).
#include <memory>

#include <fmt/format.h>

#include "ops/contraction.hpp"
#include "ops/integer_result.hpp"
#include "ops/quantize_linear.hpp"
#include "ops/window.hpp"

namespace halfeven::ops {
namespace {

// Element offset, within one channel, of the input that output position meets at each kernel tap; kZero in padding.
// Laid out [tap][position].
using TapTable = std::vector<std::size_t>;

// `source` maps (output position, tap) on one axis to an input position, or to -1.
template <class Source>
TapTable tap_table(const Window& w, const Shape& sizes, Source source) {
  const std::size_t rank = sizes.size();
  const auto strides = strides_of(sizes);
  TapTable table;
  for (Odometer tap(w.kernel); tap.more(); tap.step()) {
    for (Odometer at(w.out); at.more(); at.step()) {
      std::size_t offset = 0;
      for (std::size_t k = 0; k < rank; ++k) {
        const std::int64_t i = source(k, at[k], tap[k]);
        if (i < 0 || i >= sizes[k]) {
          offset = Contraction::kZero;
          break;
        }
        offset += strides[k] * static_cast<std::size_t>(i);
      }
      table.push_back(offset);
    }
  }
  return table;
}

std::size_t volume(const Shape& shape) { return element_count(shape); }

struct Operands {
  numerics::ExactPtr x;
  numerics::ExactPtr w;
  numerics::ExactPtr bias;  ///< one per output channel, or null
};

// Batches are (image, group), rows the output channels of the group, columns the output positions.
numerics::ExactPtr convolve(const NodeReader& node, const Operands& in, DType dtype, const Shape& out, int threads) {
  const Shape& xs = in.x->shape();
  const Shape& ws = in.w->shape();
  const auto groups = static_cast<std::size_t>(node.get_int("group", 1));
  const Window w = read_window(node, spatial(xs), spatial(ws), false);
  const auto channels = static_cast<std::size_t>(ws[1]);
  const std::size_t plane = volume(spatial(xs));
  const std::size_t taps = volume(spatial(ws));
  Contraction p;
  p.batches = static_cast<std::size_t>(xs[0]) * groups;
  p.rows = static_cast<std::size_t>(ws[0]) / groups;
  p.depth = channels * taps;
  p.columns = volume(w.out);
  const auto table = std::make_shared<const TapTable>(tap_table(w, spatial(xs), [&w](std::size_t k, auto o, auto t) {
    return o * w.strides[k] - w.begin[k] + t * w.dilations[k];
  }));
  const std::size_t rows = p.rows;
  const std::size_t depth = p.depth;
  const std::size_t columns = p.columns;
  p.left = [groups, rows, depth](std::size_t b, std::size_t r, std::size_t k) {
    return (b % groups * rows + r) * depth + k;
  };
  p.right = [table, channels, plane, taps, columns](std::size_t b, std::size_t k, std::size_t first, std::size_t last,
                                                    std::size_t* to) {
    const std::size_t base = (b * channels + k / taps) * plane;
    const std::size_t* offset = table->data() + k % taps * columns;
    for (std::size_t c = first; c < last; ++c) {
      *to++ = offset[c] == Contraction::kZero ? Contraction::kZero : base + offset[c];
    }
  };
  p.bias = [groups, rows](std::size_t b, std::size_t r, std::size_t) { return b % groups * rows + r; };
  return contract(dtype, out, std::move(p), in.w, in.x, in.bias, threads);
}

// The transposed convolution gathers, too: input position (o + begin - t * dilation) / stride, where that is whole.
numerics::ExactPtr convolve_transposed(const NodeReader& node, const Operands& in, DType dtype, const Shape& out,
                                       int threads) {
  const Shape& xs = in.x->shape();
  const Shape& ws = in.w->shape();
  const auto groups = static_cast<std::size_t>(node.get_int("group", 1));
  const Window w = read_transposed_window(node, spatial(xs), spatial(ws));
  const std::size_t channels = static_cast<std::size_t>(xs[1]) / groups;  // input channels of a group
  const std::size_t plane = volume(spatial(xs));
  const std::size_t taps = volume(spatial(ws));
  Contraction p;
  p.batches = static_cast<std::size_t>(xs[0]) * groups;
  p.rows = static_cast<std::size_t>(ws[1]);
  p.depth = channels * taps;
  p.columns = volume(w.out);
  const auto table = std::make_shared<const TapTable>(tap_table(w, spatial(xs), [&w](std::size_t k, auto o, auto t) {
    const std::int64_t at = o + w.begin[k] - t * w.dilations[k];
    return at % w.strides[k] == 0 ? at / w.strides[k] : std::int64_t{-1};
  }));
  const std::size_t rows = p.rows;
  const std::size_t columns = p.columns;
  p.left = [groups, channels, taps, rows](std::size_t b, std::size_t r, std::size_t k) {
    return ((b % groups * channels + k / taps) * rows + r) * taps + k % taps;
  };
  p.right = [table, channels, plane, taps, columns](std::size_t b, std::size_t k, std::size_t first, std::size_t last,
                                                    std::size_t* to) {
    const std::size_t base = (b * channels + k / taps) * plane;
    const std::size_t* offset = table->data() + k % taps * columns;
    for (std::size_t c = first; c < last; ++c) {
      *to++ = offset[c] == Contraction::kZero ? Contraction::kZero : base + offset[c];
    }
  };
  p.bias = [groups, rows](std::size_t b, std::size_t r, std::size_t) { return b % groups * rows + r; };
  return contract(dtype, out, std::move(p), in.w, in.x, in.bias, threads);
}

// Output shape of a convolution of inputs x and w (input numbers); checks channels, groups and a bias.
std::optional<Shape> conv_shape(const InferContext& c, std::size_t x, std::size_t w, std::size_t bias) {
  const auto rank = c.require_rank(x, 3, 16);
  if (rank) c.require_rank(w, *rank, *rank);
  if (!c.shape(w)) return std::nullopt;
  const Shape& ws = *c.shape(w);
  const std::int64_t groups = c.get_int("group", 1);
  if (groups < 1) c.fail(fmt::format("group {} must be positive", groups));
  if (ws[0] >= 0 && ws[0] % groups != 0) {
    c.fail(fmt::format("{} output channels do not divide into {} groups", ws[0], groups));
  }
  if (c.has_input(bias) && c.shape(bias)) {
    const Shape& bs = *c.shape(bias);
    if (bs.size() != 1 || (bs[0] >= 0 && ws[0] >= 0 && bs[0] != ws[0])) {
      c.fail(fmt::format("bias '{}' has shape {}, but there are {} output channels", c.input_name(bias), to_string(bs),
                         ws[0]));
    }
  }
  if (!rank) return std::nullopt;
  const Shape& xs = *c.shape(x);
  if (xs[1] >= 0 && ws[1] >= 0 && xs[1] != ws[1] * groups) {
    c.fail(fmt::format("input '{}' has {} channels, but weights '{}' of shape {} in {} groups take {}", c.input_name(x),
                       xs[1], c.input_name(w), to_string(ws), groups, ws[1] * groups));
  }
  const Shape kernel = spatial(ws);
  const Shape stated = c.get_ints("kernel_shape", kernel);
  const bool known = std::all_of(kernel.begin(), kernel.end(), [](std::int64_t k) { return k >= 0; });
  if (known && stated != kernel) {
    c.fail(fmt::format("kernel_shape {} differs from the weights' {}", to_string(stated), to_string(kernel)));
  }
  Shape out{xs[0], ws[0]};
  const Shape sizes = known ? read_window(c, spatial(xs), kernel, false).out : Shape(kernel.size(), kUnknownDim);
  out.insert(out.end(), sizes.begin(), sizes.end());
  return out;
}

std::vector<TypeShape> infer_conv(const InferContext& c) {
  c.require_float(0);
  c.require_same_type(0, 1);
  if (c.has_input(2)) c.require_same_type(0, 2);
  return {{c.dtype(0), conv_shape(c, 0, 1, 2)}};
}

std::vector<Data> evaluate_conv(const EvalContext& c) {
  const Operands in{c.reals(0), c.reals(1), c.has_input(2) ? c.reals(2) : nullptr};
  return {convolve(c, in, c.result_type(), c.result_shape(), c.threads())};
}

std::vector<TypeShape> infer_conv_transpose(const InferContext& c) {
  c.require_float(0);
  c.require_same_type(0, 1);
  if (c.has_input(2)) c.require_same_type(0, 2);
  const auto rank = c.require_rank(0, 3, 16);
  if (rank) c.require_rank(1, *rank, *rank);
  if (!rank || !c.shape(1)) return {{c.dtype(0), std::nullopt}};
  const Shape& xs = *c.shape(0);
  const Shape& ws = *c.shape(1);
  const std::int64_t groups = c.get_int("group", 1);
  if (groups < 1) c.fail(fmt::format("group {} must be positive", groups));
  if (xs[1] >= 0 && ws[0] >= 0 && xs[1] != ws[0]) {
    c.fail(fmt::format("input '{}' has {} channels, but weights '{}' take {}", c.input_name(0), xs[1], c.input_name(1),
                       ws[0]));
  }
  if (xs[1] >= 0 && xs[1] % groups != 0) {
    c.fail(fmt::format("{} input channels do not divide into {} groups", xs[1], groups));
  }
  const std::int64_t m = ws[1] < 0 ? kUnknownDim : ws[1] * groups;
  if (c.has_input(2) && c.shape(2)) {
    const Shape& bs = *c.shape(2);
    if (bs.size() != 1 || (bs[0] >= 0 && m >= 0 && bs[0] != m)) {
      c.fail(
          fmt::format("bias '{}' has shape {}, but there are {} output channels", c.input_name(2), to_string(bs), m));
    }
  }
  const Shape kernel = spatial(ws);
  const bool known = std::all_of(kernel.begin(), kernel.end(), [](std::int64_t k) { return k >= 0; });
  Shape out{xs[0], m};
  const Shape sizes = known ? read_transposed_window(c, spatial(xs), kernel).out : Shape(kernel.size(), kUnknownDim);
  out.insert(out.end(), sizes.begin(), sizes.end());
  return {{c.dtype(0), out}};
}

std::vector<Data> evaluate_conv_transpose(const EvalContext& c) {
  const Operands in{c.reals(0), c.reals(1), c.has_input(2) ? c.reals(2) : nullptr};
  return {convolve_transposed(c, in, c.result_type(), c.result_shape(), c.threads())};
}

std::vector<TypeShape> infer_conv_integer(const InferContext& c) {
  c.require_type(0, {DType::uint8, DType::int8});
  c.require_type(1, {DType::uint8, DType::int8});
  if (c.has_input(2)) c.require_same_type(0, 2);
  if (c.has_input(3)) c.require_same_type(1, 3);
  if (c.has_input(2) && c.shape(2)) {
    for (const std::int64_t d : *c.shape(2)) {
      if (d > 1) c.fail(fmt::format("zero point '{}' must be a scalar", c.input_name(2)));
    }
  }
  if (c.has_input(3) && c.shape(3) && c.shape(1)) {
    const Shape& z = *c.shape(3);
    if (z.size() > 1 || (z.size() == 1 && z[0] > 1 && (*c.shape(1))[0] >= 0 && z[0] != (*c.shape(1))[0])) {
      c.fail(fmt::format("zero point '{}' of shape {} fits no weights of shape {}", c.input_name(3), to_string(z),
                         to_string(*c.shape(1))));
    }
  }
  return {{DType::int32, conv_shape(c, 0, 1, 4)}};
}

std::vector<Data> evaluate_conv_integer(const EvalContext& c) {
  const Operands in{integers_with_zero_point(c, 0, 2, 0), integers_with_zero_point(c, 1, 3, 0), nullptr};
  const auto sums = convolve(c, in, DType::float64, c.result_shape(), c.threads());
  return {int32_result(c, *sums)};
}

std::vector<TypeShape> infer_qlinear_conv(const InferContext& c) {
  c.require_type(0, {DType::uint8, DType::int8, DType::uint16, DType::int16});
  c.require_type(3, {DType::uint8, DType::int8, DType::uint16, DType::int16, DType::uint4, DType::int4});
  c.require_type(7, {DType::uint8, DType::int8, DType::uint16, DType::int16});
  c.require_type(8, {DType::int32});
  check_per_tensor(c, 1, c.dtype(0), false);
  check_parameters(c, 4, 5, c.dtype(3), c.shape(3), {0, 0}, false);
  check_per_tensor(c, 6, c.dtype(7), true);
  return {{c.dtype(7), conv_shape(c, 0, 3, 8)}};
}

std::vector<Data> evaluate_qlinear_conv(const EvalContext& c) {
  const auto x = dequantize(c, c.input(0), c.input(1), c.input(2), {0, 0}, DType::float32);
  const auto w = dequantize(c, c.input(3), c.input(4), c.input(5), {0, 0}, DType::float32);
  numerics::ExactPtr bias;
  if (c.has_input(8)) bias = bias_of_products(c, c.input(8), *x, *w);
  const auto y = convolve(c, {x, w, bias}, DType::float32, c.result_shape(), c.threads());
  return {
      quantize(c, *y, "accumulator", c.input(6), c.input(7), {0, 0}, c.result_type(), std::nullopt, true, c.threads())};
}

}  // namespace

std::vector<Operator> conv_operators() {
  return {
      {"", "Conv", {1, 11, 22}, 2, 3, 1, infer_conv, evaluate_conv},
      {"", "ConvInteger", {10}, 2, 4, 1, infer_conv_integer, evaluate_conv_integer},
      {"", "ConvTranspose", {1, 11, 22}, 2, 3, 1, infer_conv_transpose, evaluate_conv_transpose},
      {"", "QLinearConv", {10}, 8, 9, 1, infer_qlinear_conv, evaluate_qlinear_conv},
  };
}

}  // namespace halfeven::ops
