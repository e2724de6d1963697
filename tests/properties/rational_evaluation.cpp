#include "properties/rational_evaluation.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>

#include <boost/multiprecision/cpp_int.hpp>

namespace halfeven::properties {
namespace {

using Integer = boost::multiprecision::cpp_int;
using Q = boost::multiprecision::cpp_rational;

struct Array {
  Shape shape;
  std::vector<Q> v;
};

Q power_of_two(int e) { return e >= 0 ? Q(Integer(1) << e) : Q(Integer(1), Integer(1) << -e); }

Q exactly(double value) {
  if (value == 0) return 0;
  int e = 0;
  const double fraction = std::frexp(value, &e);
  return Q(Integer(static_cast<std::int64_t>(std::ldexp(fraction, 53)))) * power_of_two(e - 53);
}

// n / d for positive d, ties to even.
Integer nearest_even(const Integer& n, const Integer& d) {
  Integer whole;
  Integer rest;
  divide_qr(Integer(abs(n)), d, whole, rest);
  rest *= 2;
  if (rest > d || (rest == d && bit_test(whole, 0))) ++whole;
  return n < 0 ? Integer(-whole) : whole;
}

Integer nearest_even(const Q& x) { return nearest_even(numerator(x), denominator(x)); }

Integer whole_below(const Q& x) {
  Integer whole;
  Integer rest;
  const Integer n = numerator(x);
  divide_qr(Integer(abs(n)), Integer(denominator(x)), whole, rest);
  if (n >= 0) return whole;
  return rest == 0 ? Integer(-whole) : Integer(-whole - 1);
}

Q rounded(const Q& x, DType type) {
  if (x == 0) return x;
  const BinaryFormat format = binary_format(type);
  const Integer n = abs(numerator(x));
  const Integer d = denominator(x);
  int e = static_cast<int>(msb(n)) - static_cast<int>(msb(d));
  if ((e >= 0 ? Integer(d << e) : d) > (e >= 0 ? n : Integer(n << -e))) --e;  // now 2^e <= |x| < 2^(e + 1)
  const int unit = std::max(e - format.precision + 1, format.lowest);
  const Integer steps = nearest_even(unit >= 0 ? n : Integer(n << -unit), unit >= 0 ? Integer(d << unit) : d);
  if (steps != 0 && static_cast<int>(msb(steps)) + unit > format.highest) throw OutOfRange("overflow");
  const Q magnitude = Q(steps) * power_of_two(unit);
  return x < 0 ? Q(-magnitude) : magnitude;
}

double to_double(const Q& x) {
  if (x == 0) return 0;
  // Exact: called for values that a type of at most 53 bits holds.
  const Integer n = numerator(x);
  const Integer d = denominator(x);
  const unsigned low = lsb(Integer(abs(n)));
  return std::ldexp(static_cast<double>(static_cast<std::int64_t>(Integer(n >> low))),
                    static_cast<int>(low) - static_cast<int>(msb(d)));
}

std::pair<std::int64_t, std::int64_t> range_of(DType type) {
  switch (type) {
    case DType::uint8: return {0, 255};
    case DType::int8: return {-128, 127};
    case DType::uint16: return {0, 65535};
    case DType::int16: return {-32768, 32767};
    case DType::int4: return {-8, 7};
    default: throw std::logic_error("no quantized type");
  }
}

// --- shapes ----------------------------------------------------------------------------------------------------------

std::size_t count(const Shape& shape) {
  std::size_t n = 1;
  for (const std::int64_t d : shape) n *= static_cast<std::size_t>(d);
  return n;
}

// Calls f with every position of the shape, in C order.
void each(const Shape& shape, const std::function<void(const Shape&)>& f) {
  Shape at(shape.size(), 0);
  for (std::size_t n = count(shape); n > 0; --n) {
    f(at);
    for (std::size_t k = shape.size(); k-- > 0;) {
      if (++at[k] < shape[k]) break;
      at[k] = 0;
    }
  }
}

// Place of a position; an axis of length 1 broadcasts, and missing axes lead.
std::size_t place(const Shape& shape, const Shape& at) {
  std::size_t p = 0;
  const std::size_t skip = at.size() - shape.size();
  for (std::size_t k = 0; k < shape.size(); ++k) {
    p = p * static_cast<std::size_t>(shape[k]) + static_cast<std::size_t>(shape[k] == 1 ? 0 : at[skip + k]);
  }
  return p;
}

const Q& get(const Array& a, const Shape& at) { return a.v[place(a.shape, at)]; }

Array build(Shape shape, const std::function<Q(const Shape&)>& f) {
  Array out{std::move(shape), {}};
  each(out.shape, [&](const Shape& at) { out.v.push_back(f(at)); });
  return out;
}

std::vector<std::int64_t> whole_numbers(const Array& a) {
  std::vector<std::int64_t> out;
  for (const Q& x : a.v) out.push_back(static_cast<std::int64_t>(numerator(x)));
  return out;
}

Shape broadcast(const Shape& a, const Shape& b) {
  Shape out(std::max(a.size(), b.size()), 1);
  for (const Shape* s : {&a, &b}) {
    for (std::size_t k = 0; k < s->size(); ++k) {
      std::int64_t& d = out[out.size() - s->size() + k];
      if ((*s)[k] != 1) d = (*s)[k];
    }
  }
  return out;
}

// --- attributes ------------------------------------------------------------------------------------------------------

std::int64_t integer(const SmallNode& n, const char* name, std::int64_t otherwise) {
  const auto it = n.integers.find(name);
  return it == n.integers.end() ? otherwise : it->second;
}
std::vector<std::int64_t> list(const SmallNode& n, const char* name, std::vector<std::int64_t> otherwise) {
  const auto it = n.lists.find(name);
  return it == n.lists.end() ? otherwise : it->second;
}
Q real(const SmallNode& n, const char* name, float otherwise) {
  const auto it = n.floats.find(name);
  return exactly(static_cast<double>(it == n.floats.end() ? otherwise : it->second));
}
std::string text(const SmallNode& n, const char* name, const char* otherwise) {
  const auto it = n.strings.find(name);
  return it == n.strings.end() ? otherwise : it->second;
}

// --- operators -------------------------------------------------------------------------------------------------------

using Arrays = std::vector<Array>;

// Scale or zero point of an element.
const Q& parameter(const SmallNode& n, const Array& p, const Shape& at) {
  const std::int64_t block = integer(n, "block_size", 0);
  std::int64_t axis = integer(n, "axis", 1);
  if (axis < 0) axis += static_cast<std::int64_t>(at.size());
  if (block > 0) {
    Shape where = at;
    where[static_cast<std::size_t>(axis)] /= block;
    std::size_t i = 0;
    for (std::size_t k = 0; k < at.size(); ++k) {
      i = i * static_cast<std::size_t>(p.shape[k]) + static_cast<std::size_t>(where[k]);
    }
    return p.v[i];
  }
  return p.v.size() == 1 ? p.v[0] : p.v[static_cast<std::size_t>(at[static_cast<std::size_t>(axis)])];
}

Array dequantize(const SmallNode& n, const Arrays& in) {
  return build(in[0].shape, [&](const Shape& at) -> Q {
    const Q zero = in.size() > 2 ? parameter(n, in[2], at) : Q(0);
    return (get(in[0], at) - zero) * parameter(n, in[1], at);
  });
}

// `quotient`: the float type in which section 2 divides.
Array quantize(const SmallNode& n, const Arrays& in, DType to, std::optional<DType> quotient) {
  const auto [lo, hi] = range_of(to);
  return build(in[0].shape, [&, lo = lo, hi = hi](const Shape& at) -> Q {
    Q x = get(in[0], at) / parameter(n, in[1], at);
    if (quotient) x = rounded(x, *quotient);
    const Q zero = in.size() > 2 ? parameter(n, in[2], at) : Q(0);
    const Q y = Q(nearest_even(x)) + zero;
    return std::clamp(y, Q(lo), Q(hi));
  });
}

// One axis of a sliding window.
struct Slide {
  std::int64_t size, kernel, stride, dilation, begin, end, out;
};

std::vector<Slide> slides(const SmallNode& n, const Shape& x, std::int64_t kh, std::int64_t kw) {
  const auto strides = list(n, "strides", {1, 1});
  const auto dilations = list(n, "dilations", {1, 1});
  const auto pads = list(n, "pads", {0, 0, 0, 0});
  std::vector<Slide> out;
  for (std::size_t k = 0; k < 2; ++k) {
    Slide s{x[2 + k], k == 0 ? kh : kw, strides[k], dilations[k], pads[k], pads[2 + k], 0};
    const std::int64_t room = s.size + s.begin + s.end - (s.kernel - 1) * s.dilation - 1;
    s.out = room / s.stride + 1;
    if (integer(n, "ceil_mode", 0) != 0 && room % s.stride != 0 && s.out * s.stride < s.size + s.begin) ++s.out;
    out.push_back(s);
  }
  return out;
}

Array convolution(const SmallNode& n, const Arrays& in) {
  const Array& x = in[0];
  const Array& w = in[1];
  const std::int64_t groups = integer(n, "group", 1);
  const auto s = slides(n, x.shape, w.shape[2], w.shape[3]);
  const std::int64_t per_group = w.shape[0] / groups;
  return build({x.shape[0], w.shape[0], s[0].out, s[1].out}, [&](const Shape& at) -> Q {
    Q total = in.size() > 2 ? in[2].v[static_cast<std::size_t>(at[1])] : Q(0);
    for (std::int64_t c = 0; c < w.shape[1]; ++c) {
      for (std::int64_t i = 0; i < s[0].kernel; ++i) {
        for (std::int64_t j = 0; j < s[1].kernel; ++j) {
          const std::int64_t h = at[2] * s[0].stride - s[0].begin + i * s[0].dilation;
          const std::int64_t v = at[3] * s[1].stride - s[1].begin + j * s[1].dilation;
          if (h < 0 || v < 0 || h >= s[0].size || v >= s[1].size) continue;
          total += get(x, {at[0], at[1] / per_group * w.shape[1] + c, h, v}) * get(w, {at[1], c, i, j});
        }
      }
    }
    return total;
  });
}

Array pool(const SmallNode& n, const Array& x, bool maximum) {
  const auto kernel = list(n, "kernel_shape", {});
  const auto s = slides(n, x.shape, kernel[0], kernel[1]);
  const bool with_padding = integer(n, "count_include_pad", 0) != 0;
  return build({x.shape[0], x.shape[1], s[0].out, s[1].out}, [&](const Shape& at) -> Q {
    std::optional<Q> best;
    Q total = 0;
    std::int64_t positions = 0;
    for (std::int64_t i = 0; i < kernel[0]; ++i) {
      for (std::int64_t j = 0; j < kernel[1]; ++j) {
        const std::int64_t h = at[2] * s[0].stride - s[0].begin + i * s[0].dilation;
        const std::int64_t v = at[3] * s[1].stride - s[1].begin + j * s[1].dilation;
        const bool inside = h >= 0 && v >= 0 && h < s[0].size && v < s[1].size;
        if (inside) {
          const Q& value = get(x, {at[0], at[1], h, v});
          total += value;
          if (!best || value > *best) best = value;
        }
        // What ceil_mode adds beyond the explicit padding never counts.
        if (inside || (with_padding && h < s[0].size + s[0].end && v < s[1].size + s[1].end)) ++positions;
      }
    }
    return maximum ? *best : Q(total / positions);
  });
}

Array matmul(const Array& a, const Array& b) {
  const std::size_t ra = a.shape.size();
  const std::size_t rb = b.shape.size();
  const std::int64_t depth = a.shape[ra - 1];
  Shape out = broadcast({a.shape.begin(), a.shape.end() - 2}, {b.shape.begin(), b.shape.end() - 2});
  out.push_back(a.shape[ra - 2]);
  out.push_back(b.shape[rb - 1]);
  return build(out, [&](const Shape& at) -> Q {
    Q total = 0;
    Shape left = at;
    Shape right = at;
    for (std::int64_t k = 0; k < depth; ++k) {
      left[at.size() - 1] = k;
      right[at.size() - 2] = k;
      total += get(a, left) * get(b, right);
    }
    return total;
  });
}

Array gemm(const SmallNode& n, const Arrays& in) {
  const bool ta = integer(n, "transA", 0) != 0;
  const bool tb = integer(n, "transB", 0) != 0;
  const Q alpha = real(n, "alpha", 1);
  const Q beta = real(n, "beta", 1);
  const std::int64_t depth = in[0].shape[ta ? 0 : 1];
  return build({in[0].shape[ta ? 1 : 0], in[1].shape[tb ? 0 : 1]}, [&](const Shape& at) -> Q {
    Q total = 0;
    for (std::int64_t k = 0; k < depth; ++k) {
      total += get(in[0], ta ? Shape{k, at[0]} : Shape{at[0], k}) * get(in[1], tb ? Shape{at[1], k} : Shape{k, at[1]});
    }
    total *= alpha;
    if (in.size() > 2) total += beta * get(in[2], at);
    return total;
  });
}

Array binary(const Arrays& in, const std::function<Q(const Q&, const Q&)>& f) {
  return build(broadcast(in[0].shape, in[1].shape), [&](const Shape& at) { return f(get(in[0], at), get(in[1], at)); });
}

Array unary(const Array& x, const std::function<Q(const Q&)>& f) {
  Array out{x.shape, {}};
  for (const Q& v : x.v) out.v.push_back(f(v));
  return out;
}

Array concat(const SmallNode& n, const Arrays& in) {
  const auto axis = static_cast<std::size_t>(integer(n, "axis", 0));
  Shape out = in[0].shape;
  out[axis] = 0;
  for (const Array& a : in) out[axis] += a.shape[axis];
  return build(out, [&](const Shape& at) -> Q {
    Shape from = at;
    std::size_t which = 0;
    while (from[axis] >= in[which].shape[axis]) from[axis] -= in[which++].shape[axis];
    std::size_t p = 0;
    for (std::size_t k = 0; k < from.size(); ++k) {
      p = p * static_cast<std::size_t>(in[which].shape[k]) + static_cast<std::size_t>(from[k]);
    }
    return in[which].v[p];
  });
}

Array transpose(const SmallNode& n, const Array& x) {
  const auto perm = list(n, "perm", {});
  Shape out;
  for (const std::int64_t p : perm) out.push_back(x.shape[static_cast<std::size_t>(p)]);
  return build(out, [&](const Shape& at) {
    Shape from(at.size());
    for (std::size_t k = 0; k < at.size(); ++k) from[static_cast<std::size_t>(perm[k])] = at[k];
    return get(x, from);
  });
}

// Starts, ends (in range, positive steps), axes, steps.
Array slice(const Arrays& in) {
  const auto starts = whole_numbers(in[1]);
  const auto ends = whole_numbers(in[2]);
  const auto axes = whole_numbers(in[3]);
  const auto steps = whole_numbers(in[4]);
  Shape out = in[0].shape;
  Shape first(out.size(), 0);
  Shape step(out.size(), 1);
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const auto a = static_cast<std::size_t>(axes[k]);
    out[a] = std::max<std::int64_t>(0, (ends[k] - starts[k] + steps[k] - 1) / steps[k]);
    first[a] = starts[k];
    step[a] = steps[k];
  }
  return build(out, [&](const Shape& at) {
    Shape from = at;
    for (std::size_t k = 0; k < from.size(); ++k) from[k] = first[k] + at[k] * step[k];
    return get(in[0], from);
  });
}

Array pad(const Arrays& in) {
  const auto pads = whole_numbers(in[1]);
  const std::size_t rank = in[0].shape.size();
  Shape out = in[0].shape;
  for (std::size_t k = 0; k < rank; ++k) out[k] += pads[k] + pads[rank + k];
  return build(out, [&](const Shape& at) -> Q {
    Shape from = at;
    bool inside = true;
    for (std::size_t k = 0; k < rank; ++k) {
      from[k] -= pads[k];
      inside = inside && from[k] >= 0 && from[k] < in[0].shape[k];
    }
    return inside ? get(in[0], from) : (in.size() > 2 ? in[2].v[0] : Q(0));
  });
}

Array reduce(const SmallNode& n, const Arrays& in) {
  const auto axes = whole_numbers(in[1]);
  Shape kept = in[0].shape;
  for (const std::int64_t a : axes) kept[static_cast<std::size_t>(a)] = 1;
  std::vector<std::optional<Q>> totals(count(kept));
  std::size_t terms = 1;
  for (const std::int64_t a : axes) terms *= static_cast<std::size_t>(in[0].shape[static_cast<std::size_t>(a)]);
  each(in[0].shape, [&](const Shape& at) {
    auto& total = totals[place(kept, at)];
    const Q& x = get(in[0], at);
    if (!total) {
      total = x;
    } else if (n.op == "ReduceMax") {
      if (x > *total) total = x;
    } else {
      *total += x;
    }
  });
  Array out;
  for (std::size_t k = 0; k < kept.size(); ++k) {
    const bool gone = std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(k)) != axes.end();
    if (!gone || integer(n, "keepdims", 1) != 0) out.shape.push_back(kept[k]);
  }
  for (auto& t : totals) out.v.push_back(n.op == "ReduceMean" ? Q(*t / terms) : *t);
  return out;
}

// scales in in[2]; modes nearest (four roundings) and linear; asymmetric, half_pixel.
Array resize(const SmallNode& n, const Arrays& in) {
  const Array& x = in[0];
  const std::vector<Q>& scales = in[2].v;
  Shape out;
  for (std::size_t k = 0; k < x.shape.size(); ++k) {
    out.push_back(static_cast<std::int64_t>(whole_below(scales[k] * x.shape[k])));
  }
  const bool half_pixel = text(n, "coordinate_transformation_mode", "half_pixel") == "half_pixel";
  const std::string rounding = text(n, "nearest_mode", "round_prefer_floor");
  const Q half(1, 2);
  using Taps = std::vector<std::pair<std::int64_t, Q>>;
  const auto taps = [&](std::size_t axis, std::int64_t i) -> Taps {
    const std::int64_t last = x.shape[axis] - 1;
    const Q where = half_pixel ? Q((i + half) / scales[axis] - half) : Q(i / scales[axis]);
    const auto clamped = [&](const Integer& at) {
      return static_cast<std::int64_t>(std::clamp<Integer>(at, 0, Integer(last)));
    };
    if (text(n, "mode", "nearest") == "nearest") {
      Integer at;
      if (rounding == "floor") at = whole_below(where);
      if (rounding == "ceil") at = -whole_below(-where);
      if (rounding == "round_prefer_floor") at = -whole_below(half - where);
      if (rounding == "round_prefer_ceil") at = whole_below(where + half);
      return {{clamped(at), Q(1)}};
    }
    const Q inside = std::clamp(where, Q(0), Q(last));
    const Integer low = whole_below(inside);
    const Q part = inside - Q(low);
    return {{clamped(low), Q(1 - part)}, {clamped(low + 1), part}};
  };
  return build(out, [&](const Shape& at) -> Q {
    std::vector<std::pair<Shape, Q>> points{{{}, Q(1)}};
    for (std::size_t k = 0; k < at.size(); ++k) {
      std::vector<std::pair<Shape, Q>> next;
      for (const auto& [position, weight] : points) {
        for (const auto& [index, w] : taps(k, at[k])) {
          if (w == 0) continue;
          Shape longer = position;
          longer.push_back(index);
          next.emplace_back(longer, weight * w);
        }
      }
      points = std::move(next);
    }
    Q total = 0;
    for (const auto& [position, weight] : points) total += weight * get(x, position);
    return total;
  });
}

Array result_of(const SmallNode& n, const Arrays& in) {
  const std::string& op = n.op;
  if (op == "DequantizeLinear") return dequantize(n, in);
  if (op == "Conv") return convolution(n, in);
  if (op == "MatMul") return matmul(in[0], in[1]);
  if (op == "Gemm") return gemm(n, in);
  if (op == "Add") return binary(in, [](const Q& a, const Q& b) { return Q(a + b); });
  if (op == "Sub") return binary(in, [](const Q& a, const Q& b) { return Q(a - b); });
  if (op == "Mul") return binary(in, [](const Q& a, const Q& b) { return Q(a * b); });
  if (op == "Div") return binary(in, [](const Q& a, const Q& b) { return Q(a / b); });
  if (op == "Relu") return unary(in[0], [](const Q& x) { return x < 0 ? Q(0) : x; });
  if (op == "Clip") {
    return unary(in[0], [&](const Q& x) {
      Q y = x;
      if (in.size() > 1 && !in[1].v.empty() && y < in[1].v[0]) y = in[1].v[0];
      if (in.size() > 2 && !in[2].v.empty() && y > in[2].v[0]) y = in[2].v[0];
      return y;
    });
  }
  if (op == "LeakyRelu") {
    const Q alpha = real(n, "alpha", 0.01F);
    return unary(in[0], [&](const Q& x) { return x < 0 ? Q(alpha * x) : x; });
  }
  if (op == "HardSigmoid") {
    const Q alpha = real(n, "alpha", 0.2F);
    const Q beta = real(n, "beta", 0.5F);
    return unary(in[0], [&](const Q& x) { return std::clamp(Q(alpha * x + beta), Q(0), Q(1)); });
  }
  if (op == "HardSwish") {
    return unary(in[0], [](const Q& x) { return Q(x * std::clamp(Q(x / 6 + Q(1, 2)), Q(0), Q(1))); });
  }
  if (op == "MaxPool") return pool(n, in[0], true);
  if (op == "AveragePool") return pool(n, in[0], false);
  if (op == "GlobalAveragePool") {
    SmallNode whole;
    whole.lists["kernel_shape"] = {in[0].shape[2], in[0].shape[3]};
    return pool(whole, in[0], false);
  }
  if (op == "Concat") return concat(n, in);
  if (op == "Reshape") return {whole_numbers(in[1]), in[0].v};  // no -1, and 0 stands for itself only in empty tensors
  if (op == "Transpose") return transpose(n, in[0]);
  if (op == "Slice") return slice(in);
  if (op == "Pad") return pad(in);
  if (op == "Identity" || op == "Cast") return in[0];
  if (op == "ReduceMean" || op == "ReduceSum" || op == "ReduceMax") return reduce(n, in);
  if (op == "Resize") return resize(n, in);
  throw std::logic_error("operator " + op + " is not served");
}

// --- contract --------------------------------------------------------------------------------------------------------

// A tensor: its unrounded numbers and those that ordinary readers see.
struct Value {
  DType dtype = DType::undefined;
  Array unrounded;
  Array read;
};

bool is_real(DType type) {
  return type == DType::float32 || type == DType::float16 || type == DType::bfloat16 || type == DType::float64;
}

Array rounded(const Array& a, DType type) {
  return unary(a, [type](const Q& x) { return rounded(x, type); });
}

SmallTensor seen(const Value& value) {
  SmallTensor out{value.dtype, value.read.shape, {}};
  for (const Q& x : value.read.v) out.values.push_back(to_double(is_real(value.dtype) ? rounded(x, value.dtype) : x));
  return out;
}

DType output_type(const SmallNode& n, const std::vector<const Value*>& in) {
  if (n.op == "DequantizeLinear") return in[1]->dtype;
  if (n.op == "QuantizeLinear") return in.size() > 2 ? in[2]->dtype : DType::uint8;
  if (n.op == "Cast") return static_cast<DType>(integer(n, "to", 1));
  return in[0]->dtype;
}

Value node_value(const SmallNode& n, const std::vector<const Value*>& in, bool constant, bool exact) {
  Value out;
  out.dtype = output_type(n, in);
  Arrays read;
  for (const Value* v : in) read.push_back(v == nullptr ? Array{} : v->read);
  if (n.op == "QuantizeLinear") {
    read[0] = in[0]->unrounded;
    out.read = quantize(n, read, out.dtype, exact ? std::nullopt : std::optional(in[1]->dtype));
    out.unrounded = out.read;
    return out;
  }
  if (!is_real(out.dtype)) {  // data movement on quantized tensors
    out.read = result_of(n, read);
    out.unrounded = out.read;
    return out;
  }
  if (!exact) {
    out.read = rounded(result_of(n, read), out.dtype);
    out.unrounded = out.read;
    return out;
  }
  if (n.op == "DequantizeLinear") {
    out.read = result_of(n, read);
    out.unrounded = out.read;
    return out;
  }
  if (passes_values_on(n, in[0]->dtype, out.dtype)) {
    Arrays unrounded = read;
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (i == 0 || n.op == "Concat") unrounded[i] = in[i]->unrounded;
    }
    out.unrounded = result_of(n, unrounded);
    out.read = result_of(n, read);
    return out;
  }
  out.unrounded = result_of(n, read);
  out.read = rounded(out.unrounded, out.dtype);
  if (constant || n.op == "Cast") out.unrounded = out.read;
  return out;
}

}  // namespace

bool passes_values_on(const SmallNode& node, DType from, DType to) {
  static const std::set<std::string> ops{"Reshape",  "Transpose", "Slice", "Concat", "Pad",
                                         "Identity", "Relu",      "Clip",  "MaxPool"};
  if (node.op != "Cast") return ops.contains(node.op);
  if (!is_real(from) || !is_real(to)) return false;
  const BinaryFormat a = binary_format(from);
  const BinaryFormat b = binary_format(to);
  return a.precision <= b.precision && a.lowest >= b.lowest && a.highest <= b.highest;
}

std::map<std::string, bool> constant_tensors(const SmallGraph& graph) {
  std::map<std::string, bool> constant;
  for (const auto& [name, t] : graph.inputs) constant[name] = false;
  for (const auto& [name, t] : graph.constants) constant[name] = true;
  for (const SmallNode& n : graph.nodes) {
    bool all = true;
    for (const std::string& name : n.inputs) all = all && (name.empty() || constant.at(name));
    constant[n.output] = all;
  }
  return constant;
}

std::map<std::string, SmallTensor> evaluate(const SmallGraph& graph, bool exact) {
  std::map<std::string, Value> values;
  const auto given = [&](const std::string& name, const SmallTensor& t) {
    Array a{t.shape, {}};
    for (const double v : t.values) a.v.push_back(exactly(v));
    values[name] = {t.dtype, a, a};
  };
  for (const auto& [name, t] : graph.inputs) given(name, t);
  for (const auto& [name, t] : graph.constants) given(name, t);
  const auto constant = constant_tensors(graph);
  std::map<std::string, SmallTensor> out;
  for (const SmallNode& n : graph.nodes) {
    std::vector<const Value*> in;
    for (const std::string& name : n.inputs) in.push_back(name.empty() ? nullptr : &values.at(name));
    Value v = node_value(n, in, constant.at(n.output), exact);
    out[n.output] = seen(v);
    values[n.output] = std::move(v);
  }
  return out;
}

}  // namespace halfeven::properties
