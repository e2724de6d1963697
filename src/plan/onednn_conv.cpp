// Convolutions and products by oneDNN: its s32 sums, rounded in a pass of ours.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "cpu/conv/conv.hpp"
#include "cpu/onednn/onednn.hpp"
#include "plan/conv_problem.hpp"
#include "plan/requantization.hpp"

namespace halfeven::plan {
namespace {

namespace onednn = kernels::onednn;

std::size_t aligned(std::size_t n) { return (n + 63) / 64 * 64; }

class OneDnnKernel final : public Kernel {
 public:
  explicit OneDnnKernel(onednn::Convolution c) : convolution(std::move(c)) {}

  onednn::Convolution convolution;
  onednn::Shape shape;
  std::size_t which = 0;
  bool padded = false;
  std::int64_t top = 0, left = 0, height = 1, width = 1;  // of the image in its padding
  std::uint8_t padding = 0;
  std::vector<std::int32_t> start;  // by output channel
  std::size_t sums_at = 0;          // in the scratch
  std::size_t library_at = 0;
  kernels::FinishFunction finish = nullptr;
  std::unique_ptr<Requantization> requantization;

  std::size_t weight_bytes() const override { return convolution.weight_bytes(); }

  void run(const Buffers& b, const ParallelFor& parallel) const override {
    const auto* in = reinterpret_cast<const std::uint8_t*>(b.in[which]);
    if (padded) {
      auto* to = reinterpret_cast<std::uint8_t*>(b.scratch);
      parallel(shape.batch * shape.height, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t r = first; r < last; ++r) pad_row(in, to, r);
      });
      in = to;
    }
    auto* sums = reinterpret_cast<std::int32_t*>(b.scratch + sums_at);
    convolution.run(in, sums, b.scratch + library_at, parallel.threads());
    const kernels::Requantize q = requantization->view(false);
    const std::int64_t channels = shape.groups * shape.out_channels;
    parallel(shape.batch * shape.out_height * shape.out_width, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t p = first; p < last; ++p) {
        std::int32_t* row = sums + p * channels;
        for (std::int64_t c = 0; c < channels; ++c) row[c] += start[static_cast<std::size_t>(c)];
        kernels::FinishArgs f;
        std::byte* out = b.out[0] + p * channels;
        f.sums = row;
        f.pixels = 1;
        f.stride = channels;
        f.channels = channels;
        f.out = &out;
        f.q = &q;
        finish(f);
      }
    });
  }

 private:
  void pad_row(const std::uint8_t* in, std::uint8_t* to, std::int64_t r) const {
    const std::int64_t pixel = shape.groups * shape.channels;
    const std::int64_t n = r / shape.height;
    const std::int64_t y = r % shape.height - top;
    std::uint8_t* row = to + r * shape.width * pixel;
    std::memset(row, padding, static_cast<std::size_t>(shape.width * pixel));
    if (y < 0 || y >= height) return;
    const std::int64_t count = std::min(width, shape.width - left);
    std::memcpy(row + left * pixel, in + (n * height + y) * width * pixel, static_cast<std::size_t>(count * pixel));
  }
};

}  // namespace

Offer make_onednn_conv(const Site& site) {
  if (std::string why = onednn::why_not_exact(); !why.empty()) return refuse(std::move(why));
  ConvProblem p;
  if (std::string why = read_conv(site, p); !why.empty()) return refuse(std::move(why));
  if (p.wide || p.transposed || bits(p.q.out_type) != 8) return refuse("is left to native kernels");
  if (!fits_bytes(p)) return refuse("weights less their zero point need more than 8 bits");
  if (p.window.begin[0] < 0 || p.window.begin[1] < 0) return refuse("crops its input");
  ConvRounding rounding;
  if (std::string why = round_sums(site, p, {}, rounding); !why.empty()) return refuse(std::move(why));

  onednn::Shape s;
  s.batch = p.batch;
  s.groups = p.groups;
  s.channels = p.in_channels;
  s.out_channels = p.out_channels / p.groups;
  s.kernel_h = p.window.kernel[0];
  s.kernel_w = p.window.kernel[1];
  s.stride_h = p.window.strides[0];
  s.stride_w = p.window.strides[1];
  s.dilation_h = p.window.dilations[0];
  s.dilation_w = p.window.dilations[1];
  s.out_height = p.window.out[0];
  s.out_width = p.window.out[1];
  s.height = (s.out_height - 1) * s.stride_h + (s.kernel_h - 1) * s.dilation_h + 1;
  s.width = (s.out_width - 1) * s.stride_w + (s.kernel_w - 1) * s.dilation_w + 1;
  // What no tap reads at the ends stays: without padding the input is used as it lies.
  const bool padded = p.window.begin[0] > 0 || p.window.begin[1] > 0 || s.height > p.height || s.width > p.width;
  if (!padded) {
    s.height = p.height;
    s.width = p.width;
  }
  std::vector<std::int8_t> weights;
  for (std::int64_t oc = 0; oc < p.out_channels; ++oc) {
    for (std::int64_t t = 0; t < p.taps(); ++t) {
      for (std::int64_t c = 0; c < p.in_channels; ++c) weights.push_back(static_cast<std::int8_t>(p.weight(oc, t, c)));
    }
  }
  std::unique_ptr<OneDnnKernel> kernel;
  try {
    kernel = std::make_unique<OneDnnKernel>(onednn::Convolution(s, weights.data(), site.threads));
  } catch (const std::runtime_error& e) {
    return refuse(std::string("oneDNN: ") + e.what());
  }
  kernel->requantization = std::make_unique<Requantization>(rounding.ratios, rounding.offsets, numerics::Rational(),
                                                            rounding.bounds, 0, p.q);
  if (!kernel->requantization->usable()) return refuse("its bias is too large for a requantisation in double");
  kernel->shape = s;
  kernel->padded = padded;
  kernel->top = p.window.begin[0];
  kernel->left = p.window.begin[1];
  kernel->height = p.height;
  kernel->width = p.width;
  kernel->padding = static_cast<std::uint8_t>(p.zero);
  kernel->start = rounding.start;
  kernel->finish = kernels::conv_avx512().to_bytes;
  kernel->which = input_of(site.node, p.x.id);
  const auto input = static_cast<std::size_t>(s.batch * s.height * s.width * s.groups * s.channels);
  const auto outputs = static_cast<std::size_t>(s.batch * s.out_height * s.out_width * p.out_channels);
  kernel->sums_at = padded ? aligned(input) : 0;
  kernel->library_at = kernel->sums_at + aligned(outputs * sizeof(std::int32_t) + 64);
  kernel->scratch = kernel->library_at + aligned(kernel->convolution.scratch_bytes());
  const double bound = *std::max_element(rounding.bounds.begin(), rounding.bounds.end());
  kernel->rounding = kernel->requantization->rounding();
  kernel->note = kernel->convolution.implementation() +
                 "; |sum| <= " + std::to_string(static_cast<std::int64_t>(bound)) + ", int32; " +
                 kernel->requantization->describe();
  const Layout layout = p.product ? Layout::plain : Layout::channels_last;
  kernel->in_forms.resize(site.node.inputs.size());
  kernel->in_forms[kernel->which] = byte_form(layout, p.xt);
  kernel->out_form = byte_form(layout, p.q.out_type);
  return {std::move(kernel), ""};
}

}  // namespace halfeven::plan
