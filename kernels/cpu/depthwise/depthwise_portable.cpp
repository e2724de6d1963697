#include "cpu/depthwise/depthwise.hpp"

namespace halfeven::kernels {

DepthwiseWeights pack_depthwise(const ConvShape& s, const std::int16_t* weights, const std::int32_t* start) {
  DepthwiseWeights w;
  const std::int64_t taps = s.kernel_h * s.kernel_w;
  w.stride = (s.groups + 15) / 16 * 16;
  w.packed.assign(static_cast<std::size_t>((taps + 1) / 2 * w.stride * 2), 0);
  w.start.assign(static_cast<std::size_t>(w.stride), 0);
  for (std::int64_t c = 0; c < s.groups; ++c) {
    w.start[static_cast<std::size_t>(c)] = start[c];
    for (std::int64_t t = 0; t < taps; ++t) {
      w.packed[static_cast<std::size_t>((t / 2 * w.stride + c) * 2 + t % 2)] = weights[c * taps + t];
    }
  }
  return w;
}

void depthwise_portable(const ConvShape& s, const std::uint8_t* input, const DepthwiseWeights& weights,
                        const Requantize& q, std::uint8_t* out, std::int64_t first, std::int64_t last) {
  const std::int64_t taps = s.kernel_h * s.kernel_w;
  for (std::int64_t row = first; row < last; ++row) {
    const std::int64_t n = row / s.out_height;
    const std::int64_t oy = row % s.out_height;
    for (std::int64_t ox = 0; ox < s.out_width; ++ox) {
      std::uint8_t* to = out + (row * s.out_width + ox) * s.groups;
      for (std::int64_t c = 0; c < s.groups; ++c) {
        std::int32_t sum = weights.start[static_cast<std::size_t>(c)];
        for (std::int64_t t = 0; t < taps; ++t) {
          const std::int64_t y = oy * s.stride_h + t / s.kernel_w * s.dilation_h;
          const std::int64_t x = ox * s.stride_w + t % s.kernel_w * s.dilation_w;
          sum += input[((n * s.height + y) * s.width + x) * s.groups + c] *
                 weights.packed[static_cast<std::size_t>((t / 2 * weights.stride + c) * 2 + t % 2)];
        }
        to[c] = static_cast<std::uint8_t>(requantize(q, static_cast<std::size_t>(c), sum));
      }
    }
  }
}

}  // namespace halfeven::kernels
