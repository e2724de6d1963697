#include <algorithm>

#include "cpu/conv/conv.hpp"

namespace halfeven::kernels {

namespace {
constexpr std::int64_t kLanes = 16;
}

ConvWeights pack_conv(const ConvShape& s, std::int64_t real_channels, const std::int8_t* weights,
                      const std::int32_t* start) {
  ConvWeights w;
  w.blocks = (s.out_channels + kLanes - 1) / kLanes;
  const std::int64_t taps = s.kernel_h * s.kernel_w;
  w.packed.assign(static_cast<std::size_t>(s.groups * w.blocks * taps * s.channels * kLanes), 0);
  w.start.assign(static_cast<std::size_t>(s.groups * w.blocks * kLanes), 0);
  for (std::int64_t g = 0; g < s.groups; ++g) {
    for (std::int64_t oc = 0; oc < s.out_channels; ++oc) {
      const std::int64_t block = g * w.blocks + oc / kLanes;
      const std::int64_t lane = oc % kLanes;
      w.start[static_cast<std::size_t>(block * kLanes + lane)] = start[g * s.out_channels + oc];
      for (std::int64_t t = 0; t < taps; ++t) {
        for (std::int64_t c = 0; c < real_channels; ++c) {
          const std::int64_t at = ((block * taps + t) * (s.channels / 4) + c / 4) * kLanes * 4 + lane * 4 + c % 4;
          w.packed[static_cast<std::size_t>(at)] = weights[((g * s.out_channels + oc) * taps + t) * real_channels + c];
        }
      }
    }
  }
  return w;
}

void conv_portable(const ConvShape& s, const std::uint8_t* input, const ConvWeights& weights, const Requantize& q,
                   std::uint8_t* out, std::int64_t first, std::int64_t last) {
  const std::int64_t taps = s.kernel_h * s.kernel_w;
  const std::int64_t out_pixel = s.groups * s.out_channels;
  for (std::int64_t row = first; row < last; ++row) {
    const std::int64_t n = row / s.out_height;
    const std::int64_t oy = row % s.out_height;
    for (std::int64_t ox = 0; ox < s.out_width; ++ox) {
      std::uint8_t* to = out + (row * s.out_width + ox) * out_pixel;
      for (std::int64_t g = 0; g < s.groups; ++g) {
        for (std::int64_t b = 0; b < weights.blocks; ++b) {
          std::int32_t sums[kLanes];
          const std::int64_t block = g * weights.blocks + b;
          std::copy_n(weights.start.data() + block * kLanes, kLanes, sums);
          const std::int8_t* w = weights.packed.data() + block * taps * s.channels * kLanes;
          for (std::int64_t t = 0; t < taps; ++t) {
            const std::int64_t y = oy * s.stride_h + t / s.kernel_w * s.dilation_h;
            const std::int64_t x = ox * s.stride_w + t % s.kernel_w * s.dilation_w;
            const std::uint8_t* in = input + ((n * s.height + y) * s.width + x) * s.pixel() + g * s.channels;
            for (std::int64_t c = 0; c < s.channels; c += 4, w += kLanes * 4) {
              for (std::int64_t lane = 0; lane < kLanes; ++lane) {
                sums[lane] += in[c] * w[lane * 4] + in[c + 1] * w[lane * 4 + 1] + in[c + 2] * w[lane * 4 + 2] +
                              in[c + 3] * w[lane * 4 + 3];
              }
            }
          }
          const std::int64_t channels = std::min(kLanes, s.out_channels - b * kLanes);
          for (std::int64_t lane = 0; lane < channels; ++lane) {
            const std::int64_t channel = g * s.out_channels + b * kLanes + lane;
            to[channel] = static_cast<std::uint8_t>(requantize(q, static_cast<std::size_t>(channel), sums[lane]));
          }
        }
      }
    }
  }
}

}  // namespace halfeven::kernels
