// Convolutions and products with constant 8-bit weights.
#include <algorithm>
#include <cstring>

#include "cpu/conv/conv.hpp"
#include "cpu/depthwise/depthwise.hpp"
#include "ops/window.hpp"
#include "plan/quantized.hpp"

namespace halfeven::plan {
namespace {

using numerics::Rational;

// How the input reaches the kernel's padded form.
struct PadCopy {
  std::int64_t batch, groups, channels, height, width;  // real ones; channels of a group
  std::int64_t padded_channels, padded_height, padded_width, top, left;
  bool from_channels_last;
  std::uint8_t flip;
  std::uint8_t fill;

  std::size_t bytes() const {
    return static_cast<std::size_t>(batch * padded_height * padded_width * groups * padded_channels) + 64;
  }

  void rows(const std::uint8_t* in, std::uint8_t* out, std::int64_t first, std::int64_t last) const {
    const std::int64_t pixel = groups * padded_channels;
    const std::int64_t all = groups * channels;
    for (std::int64_t row = first; row < last; ++row) {
      const std::int64_t n = row / padded_height;
      const std::int64_t y = row % padded_height - top;
      std::uint8_t* to = out + row * padded_width * pixel;
      if (y < 0 || y >= height) {
        std::memset(to, fill, static_cast<std::size_t>(padded_width * pixel));
        continue;
      }
      if (padded_channels != channels) {
        std::memset(to, fill, static_cast<std::size_t>(padded_width * pixel));
      } else {
        std::memset(to, fill, static_cast<std::size_t>(left * pixel));
        std::memset(to + (left + width) * pixel, fill, static_cast<std::size_t>((padded_width - left - width) * pixel));
      }
      to += left * pixel;
      if (from_channels_last) {
        const std::uint8_t* from = in + (n * height + y) * width * all;
        if (padded_channels == channels) {
          std::memcpy(to, from, static_cast<std::size_t>(width * all));
          if (flip != 0) {
            for (std::int64_t i = 0; i < width * all; ++i) to[i] ^= flip;
          }
          continue;
        }
        for (std::int64_t x = 0; x < width; ++x) {
          for (std::int64_t g = 0; g < groups; ++g) {
            for (std::int64_t c = 0; c < channels; ++c) {
              to[x * pixel + g * padded_channels + c] = from[x * all + g * channels + c] ^ flip;
            }
          }
        }
        continue;
      }
      for (std::int64_t g = 0; g < groups; ++g) {
        for (std::int64_t c = 0; c < channels; ++c) {
          const std::uint8_t* from = in + ((n * all + g * channels + c) * height + y) * width;
          std::uint8_t* into = to + g * padded_channels + c;
          for (std::int64_t x = 0; x < width; ++x) into[x * pixel] = from[x] ^ flip;
        }
      }
    }
  }
};

class ConvKernel final : public Kernel {
 public:
  kernels::ConvShape shape;
  PadCopy pad{};
  bool direct = false;  // the input is usable as it lies
  kernels::ConvWeights weights;
  kernels::DepthwiseWeights depthwise;
  kernels::ConvFunction function = nullptr;
  kernels::DepthwiseFunction depthwise_function = nullptr;
  std::unique_ptr<Requantization> requantization;

  void run(const Buffers& b, const ParallelFor& parallel) const override {
    const auto* in = reinterpret_cast<const std::uint8_t*>(b.in[0]);
    auto* out = reinterpret_cast<std::uint8_t*>(b.out[0]);
    if (!direct) {
      auto* padded = reinterpret_cast<std::uint8_t*>(b.scratch);
      parallel(pad.batch * pad.padded_height,
               [&](std::int64_t first, std::int64_t last) { pad.rows(in, padded, first, last); });
      in = padded;
    }
    const kernels::Requantize q = requantization->view(false);
    parallel(shape.batch * shape.out_height, [&](std::int64_t first, std::int64_t last) {
      if (function != nullptr) {
        function(shape, in, weights, q, out, first, last);
      } else {
        depthwise_function(shape, in, depthwise, q, out, first, last);
      }
    });
  }
};

// Weights in the order [output channel][tap][input channel], minus 128 where they are unsigned.
struct Weights {
  std::vector<std::int16_t> values;
  std::vector<std::int64_t> sums;       // per output channel, of value - zero point
  std::vector<std::int64_t> magnitude;  // per output channel, of |value - zero point|
};

}  // namespace

Offer make_conv(const Site& site) {
  std::string refusal;
  auto q = read_quantized(site, refusal);
  if (!q) return refuse(refusal);
  q->store_biased();
  const bool gemm = q->op_type == "Gemm";
  if (q->op_type != "Conv" && !gemm) return refuse("is no convolution or Gemm");
  if (!q->operands[0] || !q->operands[1]) return refuse("an operand is not quantized");
  const Operand& x = *q->operands[0];
  const Operand& w = *q->operands[1];
  const Tensor* wt = site.constant(w.id);
  const DType xt = site.graph.value(x.id).dtype;
  if (wt == nullptr) return refuse("its weights are computed");
  if ((xt != DType::uint8 && xt != DType::int8) || bits(wt->dtype()) > 8 || bits(q->out_type) != 8) {
    return refuse("has other than 8-bit tensors");
  }
  if (!x.per_tensor() || x.scales[0] == 0) return refuse("its activation is quantized per axis");
  const Shape& xs = site.shape(x.id);
  const Shape& ws = wt->shape();

  auto kernel = std::make_unique<ConvKernel>();
  kernels::ConvShape& s = kernel->shape;
  PadCopy& pad = kernel->pad;
  std::int64_t groups = 1;
  std::int64_t out_channels = 0;  // of all groups
  std::int64_t in_channels = 0;   // of a group
  if (gemm) {
    if (ir::int_attribute(*q->chief, "transA", 0) != 0) return refuse("transposes its activation");
    for (const char* name : {"alpha", "beta"}) {
      const auto at = q->chief->attributes.find(name);
      if (at != q->chief->attributes.end() && std::get<float>(at->second) != 1.0F) return refuse("has alpha or beta");
    }
    const bool transposed = ir::int_attribute(*q->chief, "transB", 0) != 0;
    out_channels = ws[transposed ? 0 : 1];
    in_channels = xs[1];
    s.batch = 1;
    s.out_height = 1;
    s.out_width = xs[0];
    pad.height = 1;
    pad.width = xs[0];
    if (w.scales.size() != 1 && w.axis != (transposed ? 0 : 1)) return refuse("scales run along the depth");
  } else {
    if (xs.size() != 4) return refuse("is not two-dimensional");
    const ops::NodeReader reader(site.graph, *q->chief);
    groups = reader.get_int("group", 1);
    const ops::Window win = ops::read_window(reader, {xs[2], xs[3]}, {ws[2], ws[3]}, false);
    out_channels = ws[0];
    in_channels = ws[1];
    s.batch = xs[0];
    s.kernel_h = win.kernel[0];
    s.kernel_w = win.kernel[1];
    s.stride_h = win.strides[0];
    s.stride_w = win.strides[1];
    s.dilation_h = win.dilations[0];
    s.dilation_w = win.dilations[1];
    s.out_height = win.out[0];
    s.out_width = win.out[1];
    pad.height = xs[2];
    pad.width = xs[3];
    pad.top = win.begin[0];
    pad.left = win.begin[1];
    s.height = std::max(xs[2] + win.begin[0] + win.end[0],
                        (s.out_height - 1) * s.stride_h + (s.kernel_h - 1) * s.dilation_h + 1);
    s.width = std::max(xs[3] + win.begin[1] + win.end[1],
                       (s.out_width - 1) * s.stride_w + (s.kernel_w - 1) * s.dilation_w + 1);
    if (w.scales.size() != 1 && w.axis != 0) return refuse("weight scales are not per output channel");
  }
  if (gemm) {
    s.height = 1;
    s.width = xs[0];
  }
  if (s.batch == 0 || s.out_width == 0 || s.out_height == 0) return refuse("is empty");
  const bool depthwise = groups > 1 && in_channels == 1 && out_channels == groups;
  s.groups = groups;
  s.channels = depthwise ? 1 : (in_channels + 3) / 4 * 4;
  s.out_channels = out_channels / groups;
  const std::int64_t taps = s.kernel_h * s.kernel_w;

  // --- weights
  const auto raw = ops::integers(*wt);
  const bool unsigned_weights = !is_signed_integer(wt->dtype());
  const std::int64_t shift = unsigned_weights && bits(wt->dtype()) == 8 && !depthwise ? 128 : 0;
  Weights packed;
  packed.values.resize(static_cast<std::size_t>(out_channels * taps * in_channels));
  packed.sums.assign(static_cast<std::size_t>(out_channels), 0);
  packed.magnitude.assign(static_cast<std::size_t>(out_channels), 0);
  const bool transposed = gemm && ir::int_attribute(*q->chief, "transB", 0) != 0;
  for (std::int64_t oc = 0; oc < out_channels; ++oc) {
    const std::int64_t zero = w.zero(static_cast<std::size_t>(oc));
    // A kernel multiplies by the stored weight alone: its zero point must be gone after the shift.
    if (!depthwise && zero != shift) {
      return refuse("weights have a zero point of " + std::to_string(zero));
    }
    for (std::int64_t t = 0; t < taps; ++t) {
      for (std::int64_t c = 0; c < in_channels; ++c) {
        const std::int64_t at =
            gemm ? (transposed ? oc * in_channels + c : c * out_channels + oc) : (oc * in_channels + c) * taps + t;
        const std::int64_t v = raw[static_cast<std::size_t>(at)] - zero;
        packed.values[static_cast<std::size_t>((oc * taps + t) * in_channels + c)] = static_cast<std::int16_t>(v);
        packed.sums[static_cast<std::size_t>(oc)] += v;
        packed.magnitude[static_cast<std::size_t>(oc)] += v < 0 ? -v : v;
      }
    }
  }

  // --- the input's form: bytes, signed ones flipped to unsigned
  const std::int64_t zero_byte = byte_zero(site, x);
  pad.batch = s.batch;
  pad.groups = groups;
  pad.channels = in_channels;
  pad.padded_channels = s.channels;
  pad.padded_height = s.height;
  pad.padded_width = s.width;
  pad.flip = 0;
  pad.fill = static_cast<std::uint8_t>(zero_byte);
  // A two-dimensional tensor [rows, channels] lies like [1, 1, rows, channels], channels last.
  pad.from_channels_last = gemm || site.layout(x.id) == Layout::channels_last;
  const bool same = s.height == pad.height && s.width == pad.width && s.channels == in_channels;
  kernel->direct = same && pad.from_channels_last && !depthwise;
  kernel->scratch = kernel->direct ? 0 : pad.bytes();

  // Without padding, strides and taps the image is one row of pixels, which leaves no short tiles at line ends. Some
  // rows remain, for the threads to share.
  if (kernel->direct && taps == 1 && s.stride_h == 1 && s.stride_w == 1) {
    const std::int64_t pixels = s.out_height * s.out_width;
    std::int64_t rows = std::min<std::int64_t>(s.out_height, 8);
    while (pixels % rows != 0) --rows;
    s.out_height = s.height = rows;
    s.out_width = s.width = pixels / rows;
  }

  // --- sums and requantisation
  std::vector<std::int32_t> start(static_cast<std::size_t>(out_channels), 0);
  std::vector<Rational> ratios;
  std::vector<Rational> offsets;
  const Rational sx = Rational::from_double(x.scales[0]);
  const Rational sy = Rational::from_double(q->out_scale);
  const bool has_bias = q->operands.size() > 2 && q->operands[2];
  const Tensor* bias = has_bias ? site.constant(q->operands[2]->id) : nullptr;
  if (has_bias && bias == nullptr) return refuse("its bias is computed");
  const std::vector<std::int64_t> bias_values = bias == nullptr ? std::vector<std::int64_t>{} : ops::integers(*bias);
  const Tensor* float_bias =
      q->float_constants.size() > 2 && q->float_constants[2].present() ? site.constant(q->float_constants[2]) : nullptr;
  double bound = 0;
  for (std::size_t oc = 0; oc < static_cast<std::size_t>(out_channels); ++oc) {
    const Rational product = sx * Rational::from_double(w.scale(oc));
    std::int64_t begin = -zero_byte * packed.sums[oc];
    Rational offset;
    const auto pick = [&](std::size_t n) { return n == 1 ? std::size_t{0} : oc; };
    if (bias != nullptr) {
      if (bias_values.size() != 1 && bias_values.size() != static_cast<std::size_t>(out_channels)) {
        return refuse("its bias is no vector");
      }
      const Operand& b = *q->operands[2];
      const std::int64_t v = bias_values[pick(bias_values.size())] - b.zero(oc);
      const Rational unit = Rational::from_double(b.scale(oc));
      if (unit == product && std::abs(v) < (std::int64_t{1} << 30)) {
        begin += v;  // part of the accumulator, where it is exact
      } else {
        offset = Rational(v) * unit / sy;
      }
    } else if (float_bias != nullptr) {
      if (float_bias->size() != 1 && float_bias->size() != static_cast<std::size_t>(out_channels)) {
        return refuse("its bias is no vector");
      }
      const double v = numerics::decode_float(float_bias->dtype(), float_bias->data(), pick(float_bias->size()));
      if (!std::isfinite(v)) return refuse("its bias is not finite");
      offset = Rational::from_double(v) / sy;
    }
    // Every partial sum lies within the start plus all products at their largest.
    const double reach = std::fabs(static_cast<double>(begin)) + 255.0 * static_cast<double>(packed.magnitude[oc]);
    if (reach >= 0x1p31) return refuse("its sums may exceed int32");
    bound = std::max(bound, reach);
    start[oc] = static_cast<std::int32_t>(begin);
    ratios.push_back(product / sy);
    offsets.push_back(offset);
  }
  kernel->requantization =
      std::make_unique<Requantization>(std::move(ratios), std::move(offsets), Rational(), bound, 0, *q);
  if (!kernel->requantization->usable()) return refuse("its bias is too large for a requantisation in double");

  if (depthwise) {
    kernel->depthwise = kernels::pack_depthwise(s, packed.values.data(), start.data());
    kernel->depthwise_function = site.isa == Isa::vnni ? kernels::depthwise_avx512_vnni : kernels::depthwise_portable;
  } else {
    std::vector<std::int8_t> bytes(packed.values.begin(), packed.values.end());
    kernel->weights = kernels::pack_conv(s, in_channels, bytes.data(), start.data());
    kernel->function = site.isa == Isa::vnni ? kernels::conv_avx512_vnni : kernels::conv_portable;
  }
  kernel->note =
      "|sum| <= " + std::to_string(static_cast<std::int64_t>(bound)) + ", int32; " + kernel->requantization->describe();
  kernel->in_forms.resize(site.node.inputs.size());
  kernel->in_forms[input_of(site.node, x.id)] = byte_form(gemm ? Layout::plain : site.layout(x.id), xt);
  kernel->out_form = byte_form(gemm ? Layout::plain : Layout::channels_last, q->out_type);
  return {std::move(kernel), ""};
}

}  // namespace halfeven::plan
