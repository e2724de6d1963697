// Depthwise convolution of 8-bit integers, NHWC: one filter per channel.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/conv/conv.hpp"

namespace halfeven::kernels {

struct Depthwise;

/// Computes output rows [first, last) of batch * out_height.
using DepthwiseFunction = void (*)(const Depthwise& d, const std::uint8_t* in, const Requantize& q, std::uint8_t* out,
                                   std::int64_t first, std::int64_t last);

/// One prepared depthwise convolution. Immutable. geometry.groups is the number of channels, channels and out_channels
/// are 1; taps are those of kernel_h x kernel_w with dilation_h x dilation_w.
struct Depthwise {
  ConvGeometry geometry;
  std::int64_t kernel_h = 1;
  std::int64_t kernel_w = 1;
  std::int64_t dilation_h = 1;
  std::int64_t dilation_w = 1;
  std::vector<std::int16_t> weights;  ///< [taps][channels], for portable code
  std::vector<std::int32_t> start;    ///< [channels]
  DepthwiseFunction function = nullptr;
  bool raw = false;  ///< the output is int32 sums

  // For vectors: strips of 64 bytes. Lane order is that of depthwise_byte.
  std::int64_t strips = 0;
  std::int64_t quads = 0;                ///< of rows: (kernel_h + 3) / 4
  std::int64_t planes = 1;               ///< more where weights need more than 8 bits: they are sums of so many
  AlignedBytes packed;                   ///< [strips][kernel_w][quads][planes][4 vectors][16 lanes][4 rows]
  std::vector<std::int32_t> lane_start;  ///< [strips][64]
  Fixed fixed;
  bool use_fixed = false;
  std::vector<std::uint8_t> padding_row;  ///< 64 bytes a strip

  /// For vpmaddwd, instead of `packed`: 16-bit weights of two rows, [strips of 16 channels][(kernel_h + 1) /
  /// 2][kernel_w][2 vectors][8 lanes][2 rows]. Arrays in lane order then follow depthwise_pair_lanes.
  AlignedBytes pairs;
};

/// The byte, of 64, that lane `lane` of vector `vector` ends up in: what unpacking bytes makes of the order.
constexpr std::int64_t depthwise_byte(std::int64_t vector, std::int64_t lane) {
  return 16 * (lane / 4) + 4 * vector + lane % 4;
}

/// So many channels of a strip lie side by side, 64 / channels output rows one behind the other: the last strip of few
/// channels would leave most lanes idle.
constexpr std::int64_t depthwise_strip_channels(std::int64_t left) { return left > 32 ? 64 : (left > 16 ? 32 : 16); }

/// Fills `packed` and `lane_start` from `weights` and `start`.
void pack_depthwise(Depthwise& d);
inline constexpr std::int64_t kMostDepthwiseHeight = 16;
/// For each lane of all strips its channel, -1 beyond the last.
std::vector<std::int64_t> depthwise_lanes(std::int64_t channels);

/// The first channel of a strip of 16. The last strip ends with the last channel, so that it is whole, too, if there
/// are 16 channels; what strips share is computed twice.
constexpr std::int64_t depthwise_pair_channel(std::int64_t channels, std::int64_t strip) {
  return channels < 16 ? 0 : (strip * 16 + 16 <= channels ? strip * 16 : channels - 16);
}
/// Fills `pairs` and `lane_start`; not for kernels higher than kMostDepthwiseHeight.
void pack_depthwise_pairs(Depthwise& d);
/// For each lane of all strips of 16 its channel, -1 beyond the last: the order that unpacking words makes.
std::vector<std::int64_t> depthwise_pair_lanes(std::int64_t channels);

void depthwise_portable(const Depthwise& d, const std::uint8_t* in, const Requantize& q, std::uint8_t* out,
                        std::int64_t first, std::int64_t last);
/// Needs AVX2 and FMA, and `pairs`, else the portable code serves.
void depthwise_avx2(const Depthwise& d, const std::uint8_t* in, const Requantize& q, std::uint8_t* out,
                    std::int64_t first, std::int64_t last);
/// Needs AVX-512 F, BW, DQ, VL and VNNI.
void depthwise_avx512_vnni(const Depthwise& d, const std::uint8_t* in, const Requantize& q, std::uint8_t* out,
                           std::int64_t first, std::int64_t last);

}  // namespace halfeven::kernels
