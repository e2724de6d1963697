// Depthwise convolution of 8-bit integers, NHWC: one filter per channel.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/conv/conv.hpp"

namespace halfeven::kernels {

/// Weights by pairs of taps: [pairs][channels rounded up to 16][2], 16-bit; an odd last tap has a 0 beside it.
struct DepthwiseWeights {
  std::vector<std::int16_t> packed;
  std::vector<std::int32_t> start;  ///< [channels rounded up to 16]
  std::int64_t stride = 0;          ///< channels rounded up to 16
};

/// weights: [channels][kernel_h][kernel_w]. shape.groups is the number of channels; shape.channels and out_channels are
/// 1 and the input has exactly `groups` bytes a pixel.
DepthwiseWeights pack_depthwise(const ConvShape& shape, const std::int16_t* weights, const std::int32_t* start);

using DepthwiseFunction = void (*)(const ConvShape& shape, const std::uint8_t* input, const DepthwiseWeights& weights,
                                   const Requantize& requantize, std::uint8_t* out, std::int64_t first,
                                   std::int64_t last);

void depthwise_portable(const ConvShape& shape, const std::uint8_t* input, const DepthwiseWeights& weights,
                        const Requantize& requantize, std::uint8_t* out, std::int64_t first, std::int64_t last);
/// The input must be readable 64 bytes beyond its end. Needs AVX-512 F, BW, DQ, VL and VNNI.
void depthwise_avx512_vnni(const ConvShape& shape, const std::uint8_t* input, const DepthwiseWeights& weights,
                           const Requantize& requantize, std::uint8_t* out, std::int64_t first, std::int64_t last);

}  // namespace halfeven::kernels
