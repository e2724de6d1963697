// Convolution of 8-bit integers, NHWC: u8 activations, s8 weights, exact int32 sums, requantised at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/requantize.hpp"

namespace halfeven::kernels {

/// Geometry. The input is padded already: with the zero point around the image and with anything in the channels that
/// fill a group up to a multiple of 4 (their weights are 0).
struct ConvShape {
  std::int64_t batch = 1;
  std::int64_t height = 1;  ///< of the padded input
  std::int64_t width = 1;
  std::int64_t groups = 1;
  std::int64_t channels = 4;      ///< of one group, a multiple of 4
  std::int64_t out_channels = 1;  ///< of one group
  std::int64_t out_height = 1;
  std::int64_t out_width = 1;
  std::int64_t kernel_h = 1;
  std::int64_t kernel_w = 1;
  std::int64_t stride_h = 1;
  std::int64_t stride_w = 1;
  std::int64_t dilation_h = 1;
  std::int64_t dilation_w = 1;

  std::int64_t pixel() const { return groups * channels; }  ///< bytes from one input pixel to the next
};

/// Weights in the order in which the kernels read them: per group and block of 16 output channels, per tap and four
/// input channels, 16 output channels of four bytes.
struct ConvWeights {
  std::vector<std::int8_t> packed;
  std::vector<std::int32_t> start;  ///< [groups][blocks of 16 channels]: what each sum starts from

  std::int64_t blocks = 0;  ///< of 16 output channels in a group
};

/// weights: [groups * out_channels][kernel_h][kernel_w][channels of the group before padding].
ConvWeights pack_conv(const ConvShape& shape, std::int64_t real_channels, const std::int8_t* weights,
                      const std::int32_t* start);

/// Computes output rows [first, last) of batch * out_height. `out` is the whole output, NHWC.
using ConvFunction = void (*)(const ConvShape& shape, const std::uint8_t* input, const ConvWeights& weights,
                              const Requantize& requantize, std::uint8_t* out, std::int64_t first, std::int64_t last);

void conv_portable(const ConvShape& shape, const std::uint8_t* input, const ConvWeights& weights,
                   const Requantize& requantize, std::uint8_t* out, std::int64_t first, std::int64_t last);
/// Needs AVX-512 F, BW, DQ, VL and VNNI.
void conv_avx512_vnni(const ConvShape& shape, const std::uint8_t* input, const ConvWeights& weights,
                      const Requantize& requantize, std::uint8_t* out, std::int64_t first, std::int64_t last);

}  // namespace halfeven::kernels
