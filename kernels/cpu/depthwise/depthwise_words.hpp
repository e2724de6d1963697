// Depthwise convolution of 16-bit integers to 16-bit integers, NHWC, where an int32 holds every sum.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/conv/conv.hpp"

namespace halfeven::kernels {

/// One prepared depthwise convolution. Immutable. geometry.words is set, geometry.groups is the number of channels;
/// taps are those of kernel_h x kernel_w with dilation_h x dilation_w. Strips are 64 bytes of a position: 32 channels.
struct DepthwiseWords {
  ConvGeometry geometry;
  std::int64_t kernel_h = 1;
  std::int64_t kernel_w = 1;
  std::int64_t dilation_h = 1;
  std::int64_t dilation_w = 1;
  std::int64_t strips = 0;
  std::int64_t pairs = 0;                  ///< of rows: (kernel_h + 1) / 2
  AlignedBytes packed;                     ///< int16, [strips][pairs][kernel_w][2 vectors][16 lanes][2 rows]
  std::vector<std::int32_t> start;         ///< [strips][32], in lane order
  std::vector<std::uint16_t> padding_row;  ///< 32 words
  FixedWords fixed;
};

/// The word, of 32, that lane `lane` of vector `vector` ends up in: what unpacking words makes of the order.
constexpr std::int64_t depthwise_word(std::int64_t vector, std::int64_t lane) {
  return 8 * (lane / 4) + 4 * vector + lane % 4;
}

/// So many channels of a strip lie side by side, those of 32 / channels output rows one behind the other.
constexpr std::int64_t depthwise_words_together(std::int64_t left) { return left > 16 ? 32 : 16; }

/// For each lane of all strips its channel, -1 beyond the last.
std::vector<std::int64_t> depthwise_words_lanes(std::int64_t channels);
/// Fills what depends on weights [taps][channels] and starts [channels]; geometry and sizes are set.
void pack_depthwise_words(DepthwiseWords& d, const std::vector<std::int16_t>& weights,
                          const std::vector<std::int32_t>& start);

inline constexpr std::int64_t kMostDepthwiseWordsHeight = 16;

/// Computes output rows [first, last) of batch * out_height. Needs AVX-512 F, BW, DQ, VL and VNNI.
void depthwise_words_avx512_vnni(const DepthwiseWords& d, const std::uint8_t* in, const Requantize& q,
                                 std::uint8_t* out, std::int64_t first, std::int64_t last);

}  // namespace halfeven::kernels
