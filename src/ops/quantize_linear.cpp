// QuantizeLinear and DequantizeLinear (ai.onnx 10 to 28, com.microsoft 1), contract section 1, rules 1 and 3.
#include "ops/quantize_linear.hpp"

#include <cmath>

#include <fmt/format.h>

namespace halfeven::ops {
namespace {

bool is_code(DType type) { return is_integer(type) || is_small_float(type); }

// Number of the scale for each element, and how many scales there are.
numerics::ScaleMap scale_map(const NodeReader& node, const Shape& shape, const Shape& scale, const QuantAxis& where) {
  numerics::ScaleMap map;
  const std::size_t count = element_count(scale);
  if (where.block_size == 0 && count == 1) return map;
  if (where.block_size == 0 && scale.size() <= 1) {
    const AxisSplit s = split_at(shape, normalize_axis(node, where.axis, shape.size()));
    map.inner = s.inner;
    map.count = s.length;
    return map;
  }
  // Blocked, or shaped to broadcast over the tensor (QLinearMatMul).
  const std::size_t axis = where.block_size == 0 ? 0 : normalize_axis(node, where.axis, shape.size());
  const auto strides = strides_of(scale);
  map.count = count;
  map.index.reserve(element_count(shape));
  for (Odometer p(shape); p.more(); p.step()) {
    std::size_t index = 0;
    for (std::size_t k = 0; k < shape.size(); ++k) {
      const std::int64_t at = where.block_size != 0 && k == axis ? p[k] / where.block_size : (scale[k] == 1 ? 0 : p[k]);
      index += strides[k] * static_cast<std::size_t>(at);
    }
    map.index.push_back(static_cast<std::uint32_t>(index));
  }
  return map;
}

std::vector<double> float_values(const Data& d) {
  std::vector<double> out(d.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = d.reals ? numerics::round_element(*d.reals, i, d.dtype())
                     : numerics::decode_float(d.tensor.dtype(), d.tensor.data(), i);
  }
  return out;
}

std::string element_name(const Shape& shape, std::size_t index) {
  std::string text;
  const auto strides = strides_of(shape);
  for (std::size_t k = 0; k < shape.size(); ++k) {
    text += (k == 0 ? "" : ", ") + std::to_string(index / strides[k] % static_cast<std::size_t>(shape[k]));
  }
  return "[" + text + "]";
}

void check_scale_values(const NodeReader& node, const std::vector<double>& scales, const std::string& name,
                        bool quantizes) {
  for (std::size_t i = 0; i < scales.size(); ++i) {
    if (!std::isfinite(scales[i])) {
      node.fail(fmt::format("scale '{}' must be finite, but element {} is {}", name, i, scales[i]));
    }
    if (quantizes && scales[i] == 0) {
      node.fail(fmt::format("scale '{}' must not be 0, but element {} is", name, i));
    }
  }
}

// Of the tensor's rank, and of length 1 or the tensor's length in every dimension, as far as they are known.
bool spreads_over(const Shape& scale, const Shape& shape) {
  if (scale.size() != shape.size()) return false;
  for (std::size_t k = 0; k < scale.size(); ++k) {
    if (scale[k] != 1 && scale[k] >= 0 && shape[k] >= 0 && scale[k] != shape[k]) return false;
  }
  return true;
}

// The zero point of each scale as an integer; one entry where it is absent or per tensor.
std::vector<std::int64_t> zero_points(const Data& zero_point) {
  if (!zero_point.present()) return {0};
  return integers(zero_point.tensor);
}

}  // namespace

void check_parameters(const InferContext& c, std::size_t scale, std::size_t zero_point, DType type,
                      const std::optional<Shape>& shape, const QuantAxis& where, bool quantizes) {
  if (!is_float(c.dtype(scale)) && c.dtype(scale) != DType::float8e8m0) {
    c.fail(fmt::format("scale '{}' must be a float tensor, not {}", c.input_name(scale), to_string(c.dtype(scale))));
  }
  if (where.block_size < 0) c.fail(fmt::format("block_size {} must not be negative", where.block_size));
  if (c.has_input(zero_point)) {
    if (c.dtype(zero_point) != type) {
      c.fail(fmt::format("zero point '{}' has type {}, but the quantized tensor has type {}: they must be the same",
                         c.input_name(zero_point), to_string(c.dtype(zero_point)), to_string(type)));
    }
    const auto& z = c.shape(zero_point);
    const auto& s = c.shape(scale);
    const auto single = [](const Shape& v) { return std::all_of(v.begin(), v.end(), [](auto d) { return d == 1; }); };
    const auto known = [](const Shape& v) { return std::all_of(v.begin(), v.end(), [](auto d) { return d >= 0; }); };
    if (z && s && known(*z) && known(*s) && *z != *s && !(single(*z) && single(*s))) {
      c.fail(fmt::format("zero point '{}' has shape {}, but scale '{}' has shape {}: they must be equal",
                         c.input_name(zero_point), to_string(*z), c.input_name(scale), to_string(*s)));
    }
  }
  if (const auto& value = c.constant(scale)) {
    check_scale_values(c, float_values(Data(*value)), c.input_name(scale), quantizes);
  }
  if (!c.shape(scale) || !shape) return;
  const Shape& s = *c.shape(scale);
  if (where.block_size == 0) {
    if (s.size() == 1 && s[0] != 1) {
      const std::size_t axis = normalize_axis(c, where.axis, shape->size());
      const std::int64_t length = (*shape)[axis];
      if (s[0] >= 0 && length >= 0 && s[0] != length) {
        c.fail(fmt::format("scale '{}' has {} entries, but axis {} of the tensor of shape {} has length {}",
                           c.input_name(scale), s[0], where.axis, to_string(*shape), length));
      }
    } else if (s.size() > 1 && !spreads_over(s, *shape)) {
      c.fail(fmt::format("scale '{}' has shape {}, which fits no tensor of shape {}", c.input_name(scale), to_string(s),
                         to_string(*shape)));
    }
    return;
  }
  const std::size_t axis = normalize_axis(c, where.axis, shape->size());
  if (s.size() != shape->size()) {
    c.fail(fmt::format("blocked quantization needs a scale of the tensor's rank {}, but '{}' has shape {}",
                       shape->size(), c.input_name(scale), to_string(s)));
  }
  for (std::size_t k = 0; k < s.size(); ++k) {
    const std::int64_t d = (*shape)[k];
    if (d < 0 || s[k] < 0) continue;
    if (k != axis && s[k] != d) {
      c.fail(fmt::format("scale '{}' has shape {}, but outside axis {} it must agree with the tensor's {}",
                         c.input_name(scale), to_string(s), where.axis, to_string(*shape)));
    }
    if (k != axis) continue;
    // ONNX: ceil(D / S) <= block_size <= ceil(D / (S - 1)) - 1.
    const auto ceil_div = [](std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); };
    const bool any = s[k] == 0 ? d == 0 : true;
    const std::int64_t least = s[k] == 0 ? 0 : ceil_div(d, s[k]);
    const std::int64_t most = s[k] <= 1 ? std::max<std::int64_t>(where.block_size, least) : ceil_div(d, s[k] - 1) - 1;
    if (!any || where.block_size < least || where.block_size > most) {
      c.fail(fmt::format(
          "block_size {} with {} scale rows in '{}' does not cover axis {} of length {} (allowed {}..{})",
          where.block_size, s[k], c.input_name(scale), where.axis, d, least, s[k] <= 1 ? "any" : std::to_string(most)));
    }
  }
}

void check_per_tensor(const InferContext& c, std::size_t scale, DType type, bool quantizes) {
  if (!c.has_input(scale)) c.fail(fmt::format("input {} (a scale) is missing", scale));
  check_parameters(c, scale, scale + 1, type, std::nullopt, {}, quantizes);
  for (const std::size_t i : {scale, scale + 1}) {
    if (!c.has_input(i) || !c.shape(i)) continue;
    const Shape& s = *c.shape(i);
    const bool single = std::all_of(s.begin(), s.end(), [](std::int64_t d) { return d == 1 || d < 0; });
    if (s.size() > 1 || !single) {
      c.fail(fmt::format("input '{}' of shape {} must be one value for the tensor", c.input_name(i), to_string(s)));
    }
  }
}

numerics::ExactPtr dequantize(const NodeReader& node, const Data& q, const Data& scale, const Data& zero_point,
                              const QuantAxis& where, DType dtype) {
  std::vector<double> scales = float_values(scale);
  check_scale_values(node, scales, "scale", false);
  numerics::ScaleMap map = scale_map(node, q.shape(), scale.shape(), where);
  if (is_small_float(q.dtype())) {
    auto codes = numerics::make_floats(q.tensor);
    auto zeros = zero_point.present() ? numerics::make_floats(zero_point.tensor) : nullptr;
    return numerics::make_elements(
        dtype, q.shape(), 1, [codes, zeros, scales, map]<class N>(std::size_t i, std::type_identity<N>) -> N {
          const std::size_t k = map(i);
          const N x = numerics::load<N>(*codes, i);
          const N shifted = zeros ? x - numerics::load<N>(*zeros, zeros->size() == 1 ? 0 : k) : x;
          return shifted * numerics::number<N>(scales[k]);
        });
  }
  numerics::Affine affine{integers(q.tensor), std::move(scales), std::move(map)};
  const auto zeros = zero_points(zero_point);
  for (std::size_t i = 0; i < affine.integers.size(); ++i) {
    affine.integers[i] -= zeros[zeros.size() == 1 ? 0 : affine.map(i)];
  }
  return numerics::make_affine(dtype, q.shape(), std::move(affine));
}

namespace {

// Rounds a quotient to a small float type, saturating as the operator asks.
double to_small_float(const numerics::Real& quotient, DType type, bool saturate) {
  if (type == DType::float8e8m0) throw Error(ErrorCode::model, "quantizing to float8e8m0 is not supported");
  const numerics::FloatFormat format = numerics::format_of(type);
  const double v = numerics::round_to(quotient, format);
  if (std::isfinite(v)) return v;
  if (saturate || type == DType::float4e2m1) return std::copysign(format.max, v);
  return type == DType::float8e5m2 ? v : std::nan("");
}

}  // namespace

Tensor quantize(const NodeReader& node, const numerics::ExactTensor& x, const std::string& name, const Data& scale,
                const Data& zero_point, const QuantAxis& where, DType type, std::optional<DType> quotient,
                bool saturate_floats, int threads) {
  const std::vector<double> scales = float_values(scale);
  check_scale_values(node, scales, "scale", true);
  const numerics::ScaleMap map = scale_map(node, x.shape(), scale.shape(), where);
  // x / scale for element i, rounded to the quotient's type where section 2 asks for it.
  const auto rounded_quotient = [&](std::size_t i) {
    const double s = scales[map(i)];
    const numerics::Approx q = x.approx(i) / numerics::Approx{s, 0};
    const numerics::FloatFormat format = numerics::format_of(*quotient);
    if (q.exact()) return q.special() ? q.mid : numerics::round_to(q.mid, format);
    if (std::isfinite(q.err)) {
      const double low = numerics::round_to(std::nextafter(q.mid - q.err, -HUGE_VAL), format);
      if (low == numerics::round_to(std::nextafter(q.mid + q.err, HUGE_VAL), format)) return low;
    }
    return numerics::round_to(x.exact(i) / numerics::Real::from_double(s), format);
  };
  const auto refuse_nan = [&](std::size_t i) {
    if (!numerics::is_nan(x, i)) return;
    node.fail_input(
        fmt::format("element {} of '{}' is NaN, which has no quantized value", element_name(x.shape(), i), name));
  };
  if (is_small_float(type)) {
    std::vector<std::byte> bytes(x.size() * storage_size(type));
    for (std::size_t i = 0; i < x.size(); ++i) {
      refuse_nan(i);
      const numerics::Real q = quotient ? numerics::Real::from_double(rounded_quotient(i))
                                        : x.exact(i) / numerics::Real::from_double(scales[map(i)]);
      numerics::encode_float(type, to_small_float(q, type, saturate_floats), bytes.data(), i);
    }
    return Tensor::own(type, x.shape(), std::move(bytes));
  }
  const auto zeros = zero_points(zero_point);
  const std::int64_t lo = integer_min(type);
  const std::int64_t hi = integer_max(type);
  std::vector<std::int64_t> values(x.size());
  numerics::parallel_for(x.size(), 4096, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      refuse_nan(i);
      const std::int64_t z = zeros[zeros.size() == 1 ? 0 : map(i)];
      std::int64_t steps = 0;
      if (quotient) {
        const double q = std::nearbyint(rounded_quotient(i));
        steps = static_cast<std::int64_t>(std::clamp(q, static_cast<double>(lo - z), static_cast<double>(hi - z)));
      } else {
        steps = numerics::quantize_element(x, i, scales[map(i)], lo - z, hi - z);
      }
      values[i] = std::clamp(steps + z, lo, hi);
    }
  });
  return make_integers(type, x.shape(), values);
}

namespace {

QuantAxis axis_of(const NodeReader& c) { return {c.get_int("axis", 1), c.get_int("block_size", 0)}; }

DType type_attribute(const NodeReader& c, const char* name) {
  const std::int64_t v = c.get_int(name, 0);
  if (v < 0 || v > static_cast<std::int64_t>(DType::int2)) c.fail(fmt::format("attribute {} = {} is no type", name, v));
  return static_cast<DType>(v);
}

std::vector<TypeShape> infer_dequantize(const InferContext& c) {
  if (!is_code(c.dtype(0))) {
    c.fail(fmt::format("input '{}' of type {} cannot be dequantized", c.input_name(0), to_string(c.dtype(0))));
  }
  check_parameters(c, 1, 2, c.dtype(0), c.shape(0), axis_of(c), false);
  DType type = type_attribute(c, "output_dtype");
  if (type == DType::undefined) type = c.dtype(1);
  if (!is_float(type)) c.fail(fmt::format("output type {} is not supported", to_string(type)));
  return {{type, c.shape(0)}};
}

std::vector<Data> evaluate_dequantize(const EvalContext& c) {
  return {dequantize(c, c.input(0), c.input(1), c.has_input(2) ? c.input(2) : Data(), axis_of(c), c.result_type())};
}

std::vector<TypeShape> infer_quantize(const InferContext& c) {
  if (!is_float(c.dtype(0)) && c.dtype(0) != DType::int32) {
    c.fail(fmt::format("input '{}' of type {} cannot be quantized", c.input_name(0), to_string(c.dtype(0))));
  }
  DType type = type_attribute(c, "output_dtype");
  if (c.has_input(2)) {
    if (type != DType::undefined && type != c.dtype(2)) {
      c.fail(fmt::format("output_dtype {} and the type {} of zero point '{}' differ", to_string(type),
                         to_string(c.dtype(2)), c.input_name(2)));
    }
    type = c.dtype(2);
  } else if (type == DType::undefined) {
    type = DType::uint8;
  }
  if (!is_code(type) || bits(type) > 32) c.fail(fmt::format("quantizing to {} is not supported", to_string(type)));
  check_parameters(c, 1, 2, type, c.shape(0), axis_of(c), true);
  return {{type, c.shape(0)}};
}

std::vector<Data> evaluate_quantize(const EvalContext& c) {
  numerics::ExactPtr x = c.reals(0);
  if (!x) {
    x = numerics::make_affine(DType::float64, c.input(0).shape(), {c.ints(0), {1.0}, {}});  // int32 as it is
  }
  std::optional<DType> quotient;
  if (!c.exact_contract()) {
    quotient = type_attribute(c, "precision");
    if (*quotient == DType::undefined) quotient = c.input(1).dtype();
    if (!is_float(*quotient)) quotient = x->dtype();
  }
  return {quantize(c, *x, c.input_name(0), c.input(1), c.has_input(2) ? c.input(2) : Data(), axis_of(c),
                   c.result_type(), quotient, c.get_int("saturate", 1) != 0, c.threads())};
}

}  // namespace

std::vector<Operator> quantize_linear_operators() {
  const std::vector<int> versions{10, 13, 19, 21, 23, 24, 25, 28};
  return {
      {"", "DequantizeLinear", versions, 2, 3, 1, infer_dequantize, evaluate_dequantize},
      {"", "QuantizeLinear", versions, 2, 3, 1, infer_quantize, evaluate_quantize},
      {"com.microsoft", "DequantizeLinear", {1}, 2, 3, 1, infer_dequantize, evaluate_dequantize},
      {"com.microsoft", "QuantizeLinear", {1}, 2, 3, 1, infer_quantize, evaluate_quantize},
  };
}

}  // namespace halfeven::ops
