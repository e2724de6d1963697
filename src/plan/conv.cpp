// Convolutions, transposed convolutions and products with constant weights of at most 8 bits.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "cpu/conv/conv.hpp"
#include "cpu/depthwise/depthwise.hpp"
#include "cpu/depthwise/depthwise_words.hpp"
#include "plan/conv_input.hpp"
#include "plan/conv_problem.hpp"
#include "plan/requantization.hpp"

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
  std::optional<kernels::DepthwiseWords> depthwise_words;
  std::size_t sums = 0;  // where a wide depthwise's sums lie in the scratch
  std::unique_ptr<Requantization> requantization;

  std::size_t weight_bytes() const override {
    std::size_t bytes = 0;
    for (const kernels::Conv& part : parts) {
      bytes +=
          part.weights.packed.size() + (part.weights.padding.size() + part.weights.lanes * 3) * sizeof(std::int32_t);
    }
    for (const auto* d : {&depthwise, &low_depthwise}) {
      if (*d)
        bytes += (*d)->packed.size() + (*d)->pairs.size() + (*d)->weights.size() * 2 + (*d)->lane_start.size() * 12;
    }
    if (depthwise_words) bytes += depthwise_words->packed.size();
    return bytes;
  }

  void run(const Buffers& b, const ParallelFor& parallel) const override {
    const std::uint8_t* in = input.prepare(b.in[which], b.scratch, parallel);
    const kernels::Requantize q = requantization->view(false);
    if (depthwise) return run_depthwise(in, q, b, parallel);
    if (depthwise_words) {
      const kernels::DepthwiseWords& d = *depthwise_words;
      parallel(d.geometry.batch * d.geometry.out_height, [&](std::int64_t first, std::int64_t last) {
        kernels::depthwise_words_avx512_vnni(d, in, q, reinterpret_cast<std::uint8_t*>(b.out[0]), first, last);
      });
    }
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
      low_depthwise->function(*low_depthwise, in + input.plane_bytes(), q, reinterpret_cast<std::uint8_t*>(low), first,
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

// Geometry of input and output, without taps.
ConvGeometry geometry_of(const ConvProblem& p) {
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

// Whether the sums of 16-bit activations do: their bytes are then summed in one place.
bool fits_int32(const ConvRounding& rounding) {
  return *std::max_element(rounding.bounds.begin(), rounding.bounds.end()) < 0x1p31;
}

// What positions of padding hold in memory.
std::uint16_t stored_zero(const ConvProblem& p) {
  return static_cast<std::uint16_t>(p.xt == DType::int16 ? p.zero ^ 0x8000 : p.zero);
}

// A part that computes the output with the taps of `g`; tap k uses the weights of tap numbers[k].
kernels::Conv make_part(const Site& site, const ConvProblem& p, const ConvInput& input, ConvGeometry g,
                        const std::vector<std::int64_t>& numbers, bool merged, const std::vector<std::int32_t>& shifts,
                        const ConvRounding& rounding, const Requantization& requantization) {
  kernels::Conv conv;
  conv.functions = functions_of(site.isa);
  conv.wide = p.wide;
  conv.plane_bytes = input.plane_bytes();
  conv.padding_at = input.padding_at();
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
    conv.weights =
        kernels::pack_conv(g, weights.data(), rounding.start.data(), kernels::LaneOrder::bytes, conv.rows ? 2 : 4);
    auto fixed = requantization.fixed(conv.weights.channel);
    interleaved = fixed.has_value();
    if (fixed) {
      conv.fixed = std::move(*fixed);
      if (site.plain_rounding) conv.fixed.checked = false;
      conv.result = ConvResult::fixed;
    }
  }
  if (!interleaved) {
    conv.weights =
        kernels::pack_conv(g, weights.data(), rounding.start.data(), kernels::LaneOrder::plain, conv.rows ? 2 : 4);
  }
  if (conv.functions.order != nullptr) conv.functions.order(conv.weights.packed);
  conv.one_sum = p.wide && conv.functions.planes && fits_int32(rounding);
  conv.geometry = std::move(g);
  return conv;
}

// 16-bit activations and results: the kernel reads words, where an int32 holds each channel's sum.
std::optional<WordSums> sums_of_words(const Site& site, const ConvProblem& p, const Requantization& requantization,
                                      bool depthwise) {
  if (site.isa < Isa::vnni || !p.wide || p.transposed || bits(p.q.out_type) != 16) return std::nullopt;
  if (depthwise && p.window.kernel[0] > kernels::kMostDepthwiseWordsHeight) return std::nullopt;
  // Depthwise weights are packed as words.
  auto sums = word_sums(p, requantization.word_bits(), depthwise ? 32767 : 127);
  if (!sums) return std::nullopt;
  std::vector<std::int64_t> channels(static_cast<std::size_t>(p.out_channels));
  std::iota(channels.begin(), channels.end(), 0);
  if (!requantization.fixed_words(channels, sums->shift, sums->bits)) return std::nullopt;
  return sums;
}

// From bytes to words.
void read_words(ConvGeometry& g, const ConvProblem& p) {
  g.words = true;
  for (std::int64_t* bytes : {&g.image_bytes, &g.row_bytes, &g.column_bytes, &g.group_bytes, &g.channels}) *bytes *= 2;
  g.flip = p.xt == DType::int16 ? 0 : 0x8000;
  g.padding_word = stored_zero(p);
}

kernels::Conv make_words(const Site& site, const ConvProblem& p, ConvGeometry g, const WordSums& sums,
                         const Requantization& requantization) {
  read_words(g, p);
  std::vector<std::int8_t> weights;
  for (std::int64_t oc = 0; oc < p.out_channels; ++oc) {
    for (std::int64_t t = 0; t < p.taps(); ++t) {
      for (std::int64_t c = 0; c < p.in_channels; ++c) {
        weights.push_back(
            static_cast<std::int8_t>(p.weight(oc, t, c) * (1 << sums.bits[static_cast<std::size_t>(oc)])));
      }
    }
  }
  kernels::Conv conv;
  conv.functions = kernels::conv_words_avx512_vnni();
  conv.rows = kernels::prefers_rows(g);
  conv.weights = kernels::pack_conv(g, weights.data(), sums.start.data(), kernels::LaneOrder::words, conv.rows ? 2 : 4);
  conv.fixed_words = *requantization.fixed_words(conv.weights.channel, sums.shift, sums.bits);
  conv.fixed_words.checked = !site.plain_rounding;
  conv.result = ConvResult::fixed_words;
  conv.geometry = std::move(g);
  return conv;
}

// The phases of a transposed convolution: outputs whose positions are equal modulo the strides read the same taps.
std::vector<kernels::Conv> make_phases(const Site& site, const ConvProblem& p, const std::vector<std::int32_t>& shifts,
                                       const ConvRounding& rounding, const Requantization& requantization) {
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
      ConvRounding own = rounding;
      for (std::int64_t oc = 0; oc < p.out_channels; ++oc) {
        std::int64_t sum = 0;
        for (const std::int64_t t : numbers) {
          for (std::int64_t c = 0; c < p.in_channels; ++c) sum += p.weight(oc, t, c);
        }
        const auto k = static_cast<std::size_t>(oc);
        own.start[k] = static_cast<std::int32_t>(rounding.bias[k] - p.zero * sum);
      }
      out.push_back(make_part(site, p, ConvInput(), std::move(g), numbers, false, shifts, own, requantization));
    }
  }
  return out;
}

// Of a Depthwise or a DepthwiseWords.
template <class D>
void set_window(D& d, const ConvProblem& p) {
  d.kernel_h = p.window.kernel[0];
  d.kernel_w = p.window.kernel[1];
  d.dilation_h = p.window.dilations[0];
  d.dilation_w = p.window.dilations[1];
}

void make_depthwise(ConvKernel& kernel, const Site& site, const ConvProblem& p, const ConvRounding& rounding) {
  const bool vectors = site.isa >= Isa::vnni;
  const bool pairs = !vectors && site.isa >= Isa::avx2 && p.window.kernel[0] <= kernels::kMostDepthwiseHeight;
  const auto describe = [&](std::uint8_t padding) {
    kernels::Depthwise d;
    d.geometry = geometry_of(p);
    d.geometry.padding = padding;
    set_window(d, p);
    for (std::int64_t t = 0; t < p.taps(); ++t) {
      d.geometry.taps.push_back({t / d.kernel_w * d.dilation_h, t % d.kernel_w * d.dilation_w});
      for (std::int64_t c = 0; c < p.groups; ++c) d.weights.push_back(static_cast<std::int16_t>(p.weight(c, t, 0)));
    }
    d.start = rounding.start;
    d.function =
        vectors ? kernels::depthwise_avx512_vnni : (pairs ? kernels::depthwise_avx2 : kernels::depthwise_portable);
    d.raw = p.wide;
    pairs ? kernels::pack_depthwise_pairs(d) : kernels::pack_depthwise(d);
    return d;
  };
  const auto low_padding = static_cast<std::uint8_t>(p.zero);
  kernels::Depthwise d = describe(p.wide ? static_cast<std::uint8_t>(p.zero >> 8) : low_padding);
  const auto lanes = pairs ? kernels::depthwise_pair_lanes(p.groups) : kernels::depthwise_lanes(p.groups);
  if (d.raw) {
    kernel.low_depthwise = describe(low_padding);
    kernel.finish = functions_of(site.isa).to_words;
    kernel.sums = (kernel.input.scratch_bytes() + 63) / 64 * 64;
    const auto outputs = static_cast<std::size_t>(d.geometry.batch * d.geometry.out_image);
    kernel.scratch = kernel.sums + 2 * outputs * sizeof(std::int32_t);
  } else if (auto fixed = kernel.requantization->fixed(lanes)) {
    d.fixed = std::move(*fixed);
    if (site.plain_rounding) d.fixed.checked = false;
    d.use_fixed = true;
  }
  kernel.depthwise = std::move(d);
}

kernels::DepthwiseWords make_depthwise_words(const Site& site, const ConvProblem& p, const WordSums& sums,
                                             const Requantization& requantization) {
  kernels::DepthwiseWords d;
  d.geometry = geometry_of(p);
  read_words(d.geometry, p);
  set_window(d, p);
  std::vector<std::int16_t> weights;
  for (std::int64_t t = 0; t < p.taps(); ++t) {
    for (std::int64_t c = 0; c < p.groups; ++c) {
      weights.push_back(static_cast<std::int16_t>(p.weight(c, t, 0) * (1 << sums.bits[static_cast<std::size_t>(c)])));
    }
  }
  kernels::pack_depthwise_words(d, weights, sums.start);
  d.fixed = *requantization.fixed_words(kernels::depthwise_words_lanes(p.groups), sums.shift, sums.bits);
  d.fixed.checked = !site.plain_rounding;
  return d;
}

}  // namespace

Offer make_conv(const Site& site) {
  ConvProblem p;
  if (std::string why = read_conv(site, p); !why.empty()) return refuse(std::move(why));
  const bool depthwise =
      !p.product && !p.transposed && p.groups > 1 && p.in_channels == 1 && p.out_channels == p.groups;
  if (depthwise && p.wide && bits(p.q.out_type) != 16) return refuse("is a depthwise convolution from 16 to 8 bits");
  if (depthwise && !p.wide && bits(p.q.out_type) != 8) return refuse("is a depthwise convolution from 8 to 16 bits");

  if (p.transposed && p.wide) return refuse("is a transposed convolution of 16-bit activations");
  if (p.transposed && p.taps() > static_cast<std::int64_t>(kMostTaps)) return refuse("has more than 128 taps");

  std::vector<std::int32_t> shifts;
  if (!depthwise && !fits_bytes(p)) {
    if (p.wide || p.transposed) return refuse("weights less their zero point need more than 8 bits");
    shifts = middle_shifts(site, p);
  }
  ConvRounding rounding;
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
  const auto words = sums_of_words(site, p, *kernel->requantization, depthwise);
  if (words) {
    input.element_bytes = 2;
  } else if (p.wide) {
    input.kind = ConvInput::Kind::planes;
    input.flip = p.xt == DType::int16 ? 0x8000 : 0;
    input.zero = static_cast<std::uint16_t>(p.zero);
    if (site.isa >= Isa::avx512) input.split = kernels::split_words_avx512;
  }
  std::vector<std::int64_t> numbers;
  const auto [kh, kw] = std::pair(p.window.kernel[0], p.window.kernel[1]);
  const bool whole_quads = p.in_channels * input.element_bytes % 4 == 0;  // they are read in fours
  const bool merged = !p.product && !p.transposed && (!p.wide || words) && p.groups == 1 &&
                      p.window.dilations[1] == 1 && kw > 1 && !whole_quads && kw * p.in_channels <= 64;
  if (merged) {
    input.kind = ConvInput::Kind::rows;
    input.layout = site.layout(p.x.id);
    form.layout = input.layout;
    input.left = std::max<std::int64_t>(0, p.window.begin[1]);
    const std::int64_t reach = (g.out_width - 1) * g.stride_w + kw - p.window.begin[1];  // columns that are read
    input.padded_width = input.left + std::max(p.width, reach);
    input.padding = stored_zero(p);
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
  kernel->reads_beyond = input.kind == ConvInput::Kind::as_it_is && !depthwise && !whole_quads;
  kernel->scratch = input.scratch_bytes();
  if (depthwise && words) {
    kernel->depthwise_words = make_depthwise_words(site, p, *words, *kernel->requantization);
  } else if (depthwise) {
    make_depthwise(*kernel, site, p, rounding);
  } else if (words) {
    kernel->parts.push_back(make_words(site, p, std::move(g), *words, *kernel->requantization));
  } else if (p.transposed) {
    kernel->parts = make_phases(site, p, shifts, rounding, *kernel->requantization);
  } else {
    kernel->parts.push_back(
        make_part(site, p, input, std::move(g), numbers, merged, shifts, rounding, *kernel->requantization));
  }
  for (kernels::Conv& part : kernel->parts) part.divide(site.threads);

  kernel->rounding = kernel->requantization->rounding();
  const char* sums = words ? ", one int32 sum; 32.16, lanes closer than 2^-13 to a tie go to "
                           : (p.wide ? ", two int32 planes; " : ", int32; ");
  kernel->note =
      "|sum| <= " + std::to_string(static_cast<std::int64_t>(bound)) + sums + kernel->requantization->describe();
  kernel->in_forms.resize(site.node.inputs.size());
  kernel->in_forms[kernel->which] = form;
  kernel->out_form = byte_form(p.product ? Layout::plain : Layout::channels_last, p.q.out_type);
  return {std::move(kernel), ""};
}

}  // namespace halfeven::plan
