// Convolutions, transposed convolutions and products with constant weights of at most 8 bits.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "cpu/conv/conv.hpp"
#include "cpu/depthwise/depthwise.hpp"
#include "numerics/format.hpp"
#include "ops/window.hpp"
#include "plan/conv_input.hpp"
#include "plan/quantized.hpp"

namespace halfeven::plan {
namespace {

using kernels::ConvGeometry;
using kernels::ConvResult;
using numerics::Rational;

constexpr std::size_t kMostTaps = 128;

class ConvKernel final : public Kernel {
 public:
  ConvInput input;
  std::size_t which = 0;             // node input that is the activation
  std::vector<kernels::Conv> parts;  // one; a transposed convolution has one for each phase of its strides
  std::optional<kernels::Depthwise> depthwise;
  std::size_t sums = 0;  // where a wide depthwise's sums lie in the scratch
  std::unique_ptr<Requantization> requantization;

  void run(const Buffers& b, const ParallelFor& parallel) const override {
    const std::uint8_t* in = input.prepare(b.in[which], b.scratch, parallel);
    const kernels::Requantize q = requantization->view(false);
    if (depthwise) return run_depthwise(in, q, b, parallel);
    for (const kernels::Conv& part : parts) {
      parallel(part.units(), [&](std::int64_t first, std::int64_t last) { part.run(in, q, b.out[0], first, last); });
    }
  }

 private:
  void run_depthwise(const std::uint8_t* in, const kernels::Requantize& q, const Buffers& b,
                     const ParallelFor& parallel) const {
    const kernels::Depthwise& d = *depthwise;
    const ConvGeometry& g = d.geometry;
    const std::int64_t rows = g.batch * g.out_height;
    if (!d.raw) {
      parallel(rows, [&](std::int64_t first, std::int64_t last) {
        d.function(d, in, q, reinterpret_cast<std::uint8_t*>(b.out[0]), first, last);
      });
      return;
    }
    // Sums of the high bytes, of the low ones, then both are rounded.
    const std::int64_t row = g.out_row;
    auto* high = reinterpret_cast<std::int32_t*>(b.scratch + sums);
    std::int32_t* low = high + rows * row;
    parallel(rows, [&](std::int64_t first, std::int64_t last) {
      d.function(d, in, q, reinterpret_cast<std::uint8_t*>(high), first, last);
      low_depthwise->function(*low_depthwise, in + input.elements(), q, reinterpret_cast<std::uint8_t*>(low), first,
                              last);
      for (std::int64_t p = first * g.out_width; p < last * g.out_width; ++p) {
        kernels::FinishArgs f;
        std::byte* out = b.out[0] + p * g.groups * 2;
        f.sums = high + p * g.groups;
        f.low_sums = low + p * g.groups;
        f.pixels = 1;
        f.stride = g.groups;
        f.channels = g.groups;
        f.out = &out;
        f.q = &q;
        finish(f);
      }
    });
  }

 public:
  std::optional<kernels::Depthwise> low_depthwise;  // the same with the padding's low byte
  kernels::FinishFunction finish = nullptr;
};

// A product as it stands in the graph, and what of it is known.
struct Problem {
  QuantizedOperator q;
  Operand x;
  Operand w;
  DType xt{};
  bool product = false;     // Gemm or MatMul
  bool transposed = false;  // ConvTranspose
  bool wide = false;        // 16-bit activations
  std::int64_t groups = 1;
  std::int64_t in_channels = 1;   // of a group
  std::int64_t out_channels = 1;  // of all groups
  std::int64_t batch = 1, height = 1, width = 1;
  ops::Window window;                                      // of two dimensions
  std::vector<std::int64_t> raw;                           // weights as stored
  std::int64_t stride_oc = 1, stride_c = 1, stride_t = 1;  // in raw
  std::int64_t zero = 0;                                   // of the activation as the kernel sees it

  std::int64_t taps() const { return window.kernel[0] * window.kernel[1]; }
  // Weight of output channel oc (of all groups), tap t, input channel c of the group.
  std::int64_t weight(std::int64_t oc, std::int64_t t, std::int64_t c) const {
    const std::int64_t group = oc / (out_channels / groups);
    const std::int64_t at =
        transposed ? ((group * in_channels + c) * (out_channels / groups) + oc % (out_channels / groups)) * taps() + t
                   : oc * stride_oc + c * stride_c + t * stride_t;
    return raw[static_cast<std::size_t>(at)] - w.zero(static_cast<std::size_t>(oc));
  }
};

// Reads what the node is; an empty string if a kernel may take it.
std::string read_product(const Site& site, Problem& p, const Shape& xs, const Shape& ws) {
  if (p.q.op_type == "Gemm") {
    if (ir::int_attribute(*p.q.chief, "transA", 0) != 0) return "transposes its activation";
    for (const char* name : {"alpha", "beta"}) {
      const auto at = p.q.chief->attributes.find(name);
      if (at != p.q.chief->attributes.end() && std::get<float>(at->second) != 1.0F) return "has alpha or beta";
    }
  }
  if (ws.size() != 2 || xs.size() < 2) return "has weights of other than two dimensions";
  const bool flipped = p.q.op_type == "Gemm" && ir::int_attribute(*p.q.chief, "transB", 0) != 0;
  p.out_channels = ws[flipped ? 0 : 1];
  p.in_channels = ws[flipped ? 1 : 0];
  p.stride_oc = flipped ? p.in_channels : 1;
  p.stride_c = flipped ? 1 : p.out_channels;
  p.window = {{1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}};
  p.width = p.in_channels == 0 ? 0 : elements(site.shape(p.x.id)) / p.in_channels;
  p.window.out[1] = p.width;
  const std::int64_t axis = flipped ? 0 : 1;
  if (p.w.scales.size() + p.w.zeros.size() > 2 && p.w.axis != axis) return "scales run along the depth";
  return "";
}

std::string read_window(const Site& site, Problem& p, const Shape& xs, const Shape& ws) {
  if (xs.size() != 4 && xs.size() != 3) return "has other than one or two spatial dimensions";
  const ops::NodeReader reader(site.graph, *p.q.chief);
  p.groups = reader.get_int("group", 1);
  const Shape sizes(xs.begin() + 2, xs.end());
  const Shape kernel(ws.begin() + 2, ws.end());
  p.window = p.transposed ? ops::read_transposed_window(reader, sizes, kernel)
                          : ops::read_window(reader, sizes, kernel, false);
  if (xs.size() == 3) {  // an image of one row
    const auto widen = [](Shape& s, std::int64_t v) { s.insert(s.begin(), v); };
    widen(p.window.kernel, 1);
    widen(p.window.strides, 1);
    widen(p.window.dilations, 1);
    widen(p.window.begin, 0);
    widen(p.window.end, 0);
    widen(p.window.out, 1);
  }
  p.batch = xs[0];
  p.height = xs.size() == 3 ? 1 : xs[2];
  p.width = xs.back();
  p.out_channels = p.transposed ? ws[1] * p.groups : ws[0];
  p.in_channels = p.transposed ? ws[0] / p.groups : ws[1];
  p.stride_t = 1;
  p.stride_c = p.taps();
  p.stride_oc = p.taps() * p.in_channels;
  const std::int64_t axis = p.transposed ? 1 : 0;
  if (p.w.scales.size() + p.w.zeros.size() > 2) {
    if (p.w.axis != axis) return "weight scales are not per output channel";
    if (p.transposed && p.groups != 1) return "weight scales of several groups share an axis";
  }
  return "";
}

std::string read(const Site& site, Problem& p) {
  std::string refusal;
  auto q = read_quantized(site, refusal);
  if (!q) return refusal;
  p.q = std::move(*q);
  p.q.store_biased();
  static const std::set<std::string_view> names{"Conv", "ConvTranspose", "Gemm", "MatMul"};
  if (!names.contains(p.q.op_type)) return "is no convolution or product";
  p.product = p.q.op_type == "Gemm" || p.q.op_type == "MatMul";
  p.transposed = p.q.op_type == "ConvTranspose";
  if (p.q.operands.size() < 2 || !p.q.operands[0] || !p.q.operands[1]) return "an operand is not quantized";
  p.x = *p.q.operands[0];
  p.w = *p.q.operands[1];
  const Tensor* wt = site.constant(p.w.id);
  p.xt = site.dtype(p.x.id);
  if (wt == nullptr) return "its weights are computed";
  p.wide = p.xt == DType::uint16 || p.xt == DType::int16;
  if ((!is_byte(p.xt) && !p.wide) || bits(wt->dtype()) > 8)
    return "has other than 8-bit weights and 8- or 16-bit activations";
  if (bits(p.q.out_type) != 8 && bits(p.q.out_type) != 16) return "has a result of other than 8 or 16 bits";
  if (!p.x.per_tensor() || p.x.scales[0] == 0) return "its activation is quantized per axis";
  const Shape& xs = site.shape(p.x.id);
  const std::string why = p.product ? read_product(site, p, xs, wt->shape()) : read_window(site, p, xs, wt->shape());
  if (!why.empty()) return why;
  const auto whole = [&](std::size_t n) { return n == 1 || n == static_cast<std::size_t>(p.out_channels); };
  if (!whole(p.w.scales.size()) || !whole(p.w.zeros.size())) return "weight scales are not per output channel";
  if (p.batch == 0 || p.window.out[0] <= 0 || p.window.out[1] <= 0 || p.out_channels == 0 || p.in_channels == 0) {
    return "is empty";
  }
  p.raw = ops::integers(*wt);
  p.zero = p.wide ? p.x.zeros[0] + (p.xt == DType::int16 ? 32768 : 0) : byte_zero(site, p.x);
  return "";
}

// What each sum starts from, how large it gets, and how it is rounded.
struct Rounding {
  std::vector<std::int32_t> start;  // all taps' zero points and the bias
  std::vector<std::int64_t> bias;   // the latter alone
  std::vector<Rational> ratios;
  std::vector<Rational> offsets;
  std::vector<double> bounds;
};

// `shifts`: by output channel what is left of the weights' zero points (weights are packed with it added).
std::string round_sums(const Site& site, const Problem& p, const std::vector<std::int32_t>& shifts, Rounding& out) {
  const Rational sx = Rational::from_double(p.x.scales[0]);
  const Rational sy = Rational::from_double(p.q.out_scale);
  const bool has_bias = p.q.operands.size() > 2 && p.q.operands[2];
  const Tensor* bias = has_bias ? site.constant(p.q.operands[2]->id) : nullptr;
  if (has_bias && bias == nullptr) return "its bias is computed";
  const std::vector<std::int64_t> bias_values = bias == nullptr ? std::vector<std::int64_t>{} : ops::integers(*bias);
  const Tensor* float_bias = p.q.float_constants.size() > 2 && p.q.float_constants[2].present()
                                 ? site.constant(p.q.float_constants[2])
                                 : nullptr;
  const double most = p.wide ? 65535 : 255;
  for (std::int64_t channel = 0; channel < p.out_channels; ++channel) {
    const auto oc = static_cast<std::size_t>(channel);
    std::int64_t sum = 0;
    std::int64_t magnitude = 0;
    std::int64_t stored = 0;  // of what the kernel multiplies by
    for (std::int64_t t = 0; t < p.taps(); ++t) {
      for (std::int64_t c = 0; c < p.in_channels; ++c) {
        const std::int64_t v = p.weight(channel, t, c);
        sum += v;
        magnitude += std::abs(v);
        stored += std::abs(v + (shifts.empty() ? 0 : shifts[oc]));
      }
    }
    const Rational product = sx * Rational::from_double(p.w.scale(oc));
    std::int64_t begin = -p.zero * sum;
    std::int64_t bias_part = 0;
    Rational offset;
    const auto pick = [&](std::size_t n) { return n == 1 ? std::size_t{0} : oc; };
    if (bias != nullptr) {
      if (bias_values.size() != 1 && bias_values.size() != static_cast<std::size_t>(p.out_channels)) {
        return "its bias is no vector";
      }
      const Operand& b = *p.q.operands[2];
      const std::int64_t v = bias_values[pick(bias_values.size())] - b.zero(oc);
      const Rational unit = Rational::from_double(b.scale(oc));
      if (unit == product && std::abs(v) < (std::int64_t{1} << 30)) {
        bias_part = v;  // part of the accumulator, where it is exact
        begin += v;
      } else {
        offset = Rational(v) * unit / sy;
      }
    } else if (float_bias != nullptr) {
      if (float_bias->size() != 1 && float_bias->size() != static_cast<std::size_t>(p.out_channels)) {
        return "its bias is no vector";
      }
      const double v = numerics::decode_float(float_bias->dtype(), float_bias->data(), pick(float_bias->size()));
      if (!std::isfinite(v)) return "its bias is not finite";
      offset = Rational::from_double(v) / sy;
    }
    if (p.wide) {  // the two planes' sums start from zero
      offset = offset + Rational(begin) * product / sy;
      begin = 0;
    }
    // Every partial sum lies within the start plus all products at their largest.
    const double reach = std::fabs(static_cast<double>(begin)) + 255.0 * static_cast<double>(stored);
    if (reach >= 0x1p31) return "its sums may exceed int32";
    out.bounds.push_back(std::fabs(static_cast<double>(begin)) + most * static_cast<double>(magnitude));
    out.start.push_back(static_cast<std::int32_t>(begin));
    out.bias.push_back(bias_part);
    out.ratios.push_back(product / sy);
    out.offsets.push_back(std::move(offset));
  }
  return "";
}

// Geometry of input and output, without taps.
ConvGeometry geometry_of(const Problem& p) {
  ConvGeometry g;
  const std::int64_t all = p.groups * p.in_channels;
  g.batch = p.batch;
  g.height = p.height;
  g.width = p.width;
  g.column_bytes = all;
  g.row_bytes = p.width * all;
  g.image_bytes = p.height * g.row_bytes;
  g.groups = p.groups;
  g.group_bytes = p.in_channels;
  g.channels = p.in_channels;
  g.out_height = p.window.out[0];
  g.out_width = p.window.out[1];
  g.stride_h = p.window.strides[0];
  g.stride_w = p.window.strides[1];
  g.origin_y = -p.window.begin[0];
  g.origin_x = -p.window.begin[1];
  g.out_channels = p.out_channels / p.groups;
  g.out_column = p.out_channels;
  g.out_row = g.out_width * g.out_column;
  g.out_image = g.out_height * g.out_row;
  g.out_element = static_cast<std::size_t>(bits(p.q.out_type)) / 8;
  g.padding = static_cast<std::uint8_t>(p.wide ? p.zero >> 8 : p.zero);
  return g;
}

kernels::ConvFunctions functions_of(Isa isa) {
  switch (isa) {
    case Isa::vnni:
    case Isa::amx: return kernels::conv_avx512_vnni();
    case Isa::avx512: return kernels::conv_avx512();
    case Isa::avx2: return kernels::conv_avx2();
    default: return kernels::conv_portable();
  }
}

// A part that computes the output with the taps of `g`; tap k uses the weights of tap numbers[k].
kernels::Conv make_part(const Site& site, const Problem& p, ConvGeometry g, const std::vector<std::int64_t>& numbers,
                        bool merged, const std::vector<std::int32_t>& shifts, const Rounding& rounding,
                        const Requantization& requantization) {
  kernels::Conv conv;
  conv.functions = functions_of(site.isa);
  conv.wide = p.wide;
  conv.plane_bytes = g.batch * g.image_bytes;
  conv.weight_zeros = shifts;
  const bool bytes = g.out_element == 1;
  conv.result = bytes ? ConvResult::bytes : ConvResult::words;
  std::vector<std::int8_t> weights;
  for (std::int64_t oc = 0; oc < p.out_channels; ++oc) {
    const std::int64_t shift = shifts.empty() ? 0 : shifts[static_cast<std::size_t>(oc)];
    const auto add = [&](std::int64_t t, std::int64_t c) {
      weights.push_back(static_cast<std::int8_t>(p.weight(oc, t, c) + shift));
    };
    if (merged) {
      for (std::int64_t t = 0; t < p.taps(); ++t) {
        for (std::int64_t c = 0; c < p.in_channels; ++c) add(t, c);
      }
    } else {
      for (const std::int64_t t : numbers) {
        for (std::int64_t c = 0; c < p.in_channels; ++c) add(t, c);
      }
    }
  }
  conv.rows = conv.functions.fixed && kernels::prefers_rows(g);
  bool interleaved = bytes && conv.functions.fixed && !p.wide && shifts.empty();
  if (interleaved) {
    conv.weights = kernels::pack_conv(g, weights.data(), rounding.start.data(), true, conv.rows ? 2 : 4);
    auto fixed = requantization.fixed(conv.weights.channel);
    interleaved = fixed.has_value();
    if (fixed) {
      conv.fixed = std::move(*fixed);
      conv.result = ConvResult::fixed;
    }
  }
  if (!interleaved)
    conv.weights = kernels::pack_conv(g, weights.data(), rounding.start.data(), false, conv.rows ? 2 : 4);
  if (p.wide) conv.low_padding_row.assign(conv.weights.padding_row.size(), static_cast<std::uint8_t>(p.zero));
  conv.geometry = std::move(g);
  return conv;
}

// The phases of a transposed convolution: outputs whose positions are equal modulo the strides read the same taps.
std::vector<kernels::Conv> make_phases(const Site& site, const Problem& p, const std::vector<std::int32_t>& shifts,
                                       const Rounding& rounding, const Requantization& requantization) {
  std::vector<kernels::Conv> out;
  const ops::Window& w = p.window;
  const auto floor_div = [](std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); };
  for (std::int64_t py = 0; py < std::min(w.strides[0], w.out[0]); ++py) {
    for (std::int64_t px = 0; px < std::min(w.strides[1], w.out[1]); ++px) {
      ConvGeometry g = geometry_of(p);
      g.stride_h = g.stride_w = 1;
      g.origin_y = g.origin_x = 0;
      g.out_height = (w.out[0] - py + w.strides[0] - 1) / w.strides[0];
      g.out_width = (w.out[1] - px + w.strides[1] - 1) / w.strides[1];
      g.out_origin = py * g.out_row + px * g.out_column;
      g.out_row *= w.strides[0];
      g.out_column *= w.strides[1];
      std::vector<std::int64_t> numbers;
      for (std::int64_t ky = 0; ky < w.kernel[0]; ++ky) {
        for (std::int64_t kx = 0; kx < w.kernel[1]; ++kx) {
          // Output o reads input (o + begin - k * dilation) / stride where that is whole.
          const std::int64_t y = py + w.begin[0] - ky * w.dilations[0];
          const std::int64_t x = px + w.begin[1] - kx * w.dilations[1];
          if (floor_div(y, w.strides[0]) * w.strides[0] != y || floor_div(x, w.strides[1]) * w.strides[1] != x)
            continue;
          g.taps.push_back({floor_div(y, w.strides[0]), floor_div(x, w.strides[1])});
          numbers.push_back(ky * w.kernel[1] + kx);
        }
      }
      if (g.taps.empty()) {  // reads nothing: one tap that is always outside
        g.taps.push_back({-p.height - w.out[0], 0});
        numbers.push_back(0);
      }
      // What is read outside the image is the zero point: only this phase's taps are to be made up for.
      Rounding own = rounding;
      for (std::int64_t oc = 0; oc < p.out_channels; ++oc) {
        std::int64_t sum = 0;
        for (const std::int64_t t : numbers) {
          for (std::int64_t c = 0; c < p.in_channels; ++c) sum += p.weight(oc, t, c);
        }
        const auto k = static_cast<std::size_t>(oc);
        own.start[k] = static_cast<std::int32_t>(rounding.bias[k] - p.zero * sum);
      }
      out.push_back(make_part(site, p, std::move(g), numbers, false, shifts, own, requantization));
    }
  }
  return out;
}

void make_depthwise(ConvKernel& kernel, const Site& site, const Problem& p, const Rounding& rounding) {
  kernels::Depthwise d;
  d.geometry = geometry_of(p);
  d.kernel_h = p.window.kernel[0];
  d.kernel_w = p.window.kernel[1];
  d.dilation_h = p.window.dilations[0];
  d.dilation_w = p.window.dilations[1];
  for (std::int64_t t = 0; t < p.taps(); ++t) {
    d.geometry.taps.push_back({t / d.kernel_w * d.dilation_h, t % d.kernel_w * d.dilation_w});
    for (std::int64_t c = 0; c < p.groups; ++c) d.weights.push_back(static_cast<std::int16_t>(p.weight(c, t, 0)));
  }
  d.start = rounding.start;
  const bool vectors = site.isa >= Isa::vnni;
  d.function = vectors ? kernels::depthwise_avx512_vnni : kernels::depthwise_portable;
  d.raw = p.wide;
  kernels::pack_depthwise(d);
  if (auto fixed = kernel.requantization->fixed(kernels::depthwise_lanes(p.groups)); fixed && !p.wide) {
    d.fixed = std::move(*fixed);
    d.use_fixed = true;
  }
  if (p.wide) {
    kernels::Depthwise low;
    low.geometry = d.geometry;
    low.geometry.padding = static_cast<std::uint8_t>(p.zero);
    low.kernel_h = d.kernel_h;
    low.kernel_w = d.kernel_w;
    low.dilation_h = d.dilation_h;
    low.dilation_w = d.dilation_w;
    low.weights = d.weights;
    low.start = d.start;
    low.function = d.function;
    low.raw = true;
    kernels::pack_depthwise(low);
    kernel.low_depthwise = std::move(low);
    kernel.finish = functions_of(site.isa).to_words;
    kernel.sums = (kernel.input.scratch_bytes() + 63) / 64 * 64;
    const auto outputs = static_cast<std::size_t>(d.geometry.batch * d.geometry.out_image);
    kernel.scratch = kernel.sums + 2 * outputs * sizeof(std::int32_t);
  }
  kernel.depthwise = std::move(d);
}

// Whether the value lies in memory of the plan, with room behind it.
bool has_room_behind(const Site& site, ir::ValueId id) {
  static const std::set<std::string_view> views{"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"};
  for (const ir::Node& n : site.graph.nodes) {
    if (!n.outputs.empty() && n.outputs[0] == id) return !views.contains(n.op_type);
  }
  return false;
}

}  // namespace

Offer make_conv(const Site& site) {
  Problem p;
  if (std::string why = read(site, p); !why.empty()) return refuse(std::move(why));
  const bool depthwise =
      !p.product && !p.transposed && p.groups > 1 && p.in_channels == 1 && p.out_channels == p.groups;
  if (depthwise && p.wide && bits(p.q.out_type) != 16) return refuse("is a depthwise convolution from 16 to 8 bits");
  if (depthwise && !p.wide && bits(p.q.out_type) != 8) return refuse("is a depthwise convolution from 8 to 16 bits");

  if (p.transposed && p.wide) return refuse("is a transposed convolution of 16-bit activations");
  if (p.transposed && p.taps() > static_cast<std::int64_t>(kMostTaps)) return refuse("has more than 128 taps");

  // Weights of 8 bits without their zero point, or with a part of it.
  std::vector<std::int32_t> shifts;
  if (!depthwise) {
    bool fits = true;
    for (std::int64_t oc = 0; oc < p.out_channels && fits; ++oc) {
      for (std::int64_t t = 0; t < p.taps() && fits; ++t) {
        for (std::int64_t c = 0; c < p.in_channels && fits; ++c) {
          const std::int64_t v = p.weight(oc, t, c);
          fits = v >= -128 && v <= 127;
        }
      }
    }
    if (!fits) {
      if (p.wide) return refuse("weights less their zero point need more than 8 bits");
      if (p.transposed) return refuse("weights less their zero point need more than 8 bits");
      // Stored weight - middle fits; the rest of the zero point times the sum of the activations is taken away.
      const bool is_signed = is_signed_integer(site.constant(p.w.id)->dtype());
      for (std::int64_t oc = 0; oc < p.out_channels; ++oc) {
        const std::int64_t zero = p.w.zero(static_cast<std::size_t>(oc));
        shifts.push_back(static_cast<std::int32_t>(zero - (is_signed ? 0 : 128)));
      }
    }
  }
  Rounding rounding;
  if (std::string why = round_sums(site, p, shifts, rounding); !why.empty()) return refuse(std::move(why));
  const double bound = *std::max_element(rounding.bounds.begin(), rounding.bounds.end());
  auto kernel = std::make_unique<ConvKernel>();
  kernel->requantization =
      std::make_unique<Requantization>(rounding.ratios, rounding.offsets, Rational(), rounding.bounds, 0, p.q);
  if (!kernel->requantization->usable()) return refuse("its bias is too large for a requantisation in double");

  ConvGeometry g = geometry_of(p);
  ConvInput& input = kernel->input;
  input.batch = p.batch;
  input.height = p.height;
  input.width = p.width;
  input.channels = p.groups * p.in_channels;
  kernel->which = input_of(site.node, p.x.id);
  Form form = byte_form(p.product ? Layout::plain : Layout::channels_last, p.xt);
  if (p.wide) {
    input.kind = ConvInput::Kind::planes;
    input.flip = p.xt == DType::int16 ? 0x8000 : 0;
  } else if (input.channels % 4 != 0 && !depthwise && !has_room_behind(site, p.x.id)) {
    input.kind = ConvInput::Kind::copied;
  }
  std::vector<std::int64_t> numbers;
  const auto [kh, kw] = std::pair(p.window.kernel[0], p.window.kernel[1]);
  const bool merged = !p.product && !p.transposed && !p.wide && p.groups == 1 && p.window.dilations[1] == 1 && kw > 1 &&
                      p.in_channels % 4 != 0 && kw * p.in_channels <= 64;
  if (merged) {
    input.kind = ConvInput::Kind::rows;
    input.layout = site.layout(p.x.id);
    form.layout = input.layout;
    input.left = std::max<std::int64_t>(0, p.window.begin[1]);
    const std::int64_t reach = (g.out_width - 1) * g.stride_w + kw - p.window.begin[1];  // columns that are read
    input.padded_width = input.left + std::max(p.width, reach);
    input.padding = static_cast<std::uint8_t>(p.zero);
    const std::int64_t skipped = input.left - p.window.begin[1];  // where padding is negative
    g.row_bytes = input.padded_width * p.in_channels;
    g.image_bytes = p.height * g.row_bytes;
    g.width = input.padded_width;
    g.channels = kw * p.in_channels;
    g.origin_x = skipped;
    for (std::int64_t y = 0; y < kh; ++y) g.taps.push_back({y * p.window.dilations[0], 0});
  } else if (!depthwise && !p.transposed) {
    for (std::int64_t t = 0; t < kh * kw; ++t) {
      g.taps.push_back({t / kw * p.window.dilations[0], t % kw * p.window.dilations[1]});
      numbers.push_back(t);
    }
  }
  if (p.taps() > static_cast<std::int64_t>(kMostTaps) && g.taps.size() > kMostTaps)
    return refuse("has more than 128 taps");
  kernel->scratch = input.scratch_bytes();
  if (depthwise) {
    make_depthwise(*kernel, site, p, rounding);
  } else if (p.transposed) {
    kernel->parts = make_phases(site, p, shifts, rounding, *kernel->requantization);
  } else {
    kernel->parts.push_back(
        make_part(site, p, std::move(g), numbers, merged, shifts, rounding, *kernel->requantization));
  }
  for (kernels::Conv& part : kernel->parts) part.divide(site.threads);

  kernel->note = "|sum| <= " + std::to_string(static_cast<std::int64_t>(bound)) +
                 (p.wide ? ", two int32 planes; " : ", int32; ") + kernel->requantization->describe();
  kernel->in_forms.resize(site.node.inputs.size());
  kernel->in_forms[kernel->which] = form;
  kernel->out_form = byte_form(p.product ? Layout::plain : Layout::channels_last, p.q.out_type);
  return {std::move(kernel), ""};
}

}  // namespace halfeven::plan
