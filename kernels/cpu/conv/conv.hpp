// Convolutions and products with constant weights: u8 activations, s8 weights, exact int32 sums, finished tile by tile.
//
// One driver (conv.cpp) walks over tiles of output pixels x output channels. A tile function of an instruction set sums
// them; the sums leave the registers as 8-bit results (Fixed) or as int32, for a finish function to round.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/requantize.hpp"
#include "cpu/aligned.hpp"

namespace halfeven::kernels {

/// An input position relative to that of the output pixel.
struct Tap {
  std::int64_t y = 0;
  std::int64_t x = 0;
};

/// Where the bytes are. The input position of output pixel (r, c) is (r * stride_h + origin_y, c * stride_w +
/// origin_x); positions outside height x width hold the padding byte.
struct ConvGeometry {
  std::int64_t batch = 1;
  std::int64_t height = 1;
  std::int64_t width = 1;
  std::int64_t image_bytes = 0;   ///< from one image to the next
  std::int64_t row_bytes = 0;     ///< from one row to the next
  std::int64_t column_bytes = 0;  ///< from one position to the next
  std::int64_t groups = 1;
  std::int64_t group_bytes = 0;  ///< from one group's channels to the next group's
  std::int64_t channels = 1;     ///< bytes of a group at a position; read in fours, so up to 3 bytes beyond
  bool words = false;            ///< positions hold 16-bit integers, two bytes each
  std::vector<Tap> taps;
  std::int64_t out_height = 1;
  std::int64_t out_width = 1;
  std::int64_t stride_h = 1;
  std::int64_t stride_w = 1;
  std::int64_t origin_y = 0;
  std::int64_t origin_x = 0;
  std::int64_t out_channels = 1;  ///< of one group
  // In elements of the output:
  std::int64_t out_origin = 0;
  std::int64_t out_image = 0;
  std::int64_t out_row = 0;
  std::int64_t out_column = 0;
  std::size_t out_element = 1;  ///< bytes
  std::uint8_t padding = 0;
  std::uint16_t padding_word = 0;  ///< of words
  std::uint16_t flip = 0;          ///< of words: a product's factor is int16(word ^ flip)

  std::int64_t inputs() const { return words ? channels / 2 : channels; }  ///< input channels of a group
  std::int64_t quads() const { return (channels + 3) / 4; }
  std::int64_t out_pixels() const { return out_height * out_width; }
};

/// The 16.16 form of a requantisation to bytes: round_half_even(a * r + o) + zero is the high word of
/// int32(float(a) * ratio + offset), where ratio is r * 2^16 and offset ((o + zero + 1/2) * 2^16 + margin), unless the
/// low word is below 2 * margin: the error is less than the margin, so only then a tie may lie between. Arrays in lane
/// order.
struct Fixed {
  std::vector<float> ratio;
  std::vector<float> offset;
  std::int32_t safe_bits = 0xFFF8;  ///< bits of the low word of which one is set where the result is certain
  bool checked = true;              ///< false: all results are certain (or, to measure the check, taken for that)
  bool clamp = false;               ///< float results may exceed int32
  std::uint8_t lo = 0;
  std::uint8_t hi = 255;
};

/// The 32.16 form of a requantisation to 16 bits: a result is the upper 16 of the low 32 bits of the double
/// fma(s, ratio, offset) in [2^52, 2^53), whose last bit is worth 2^-16 of a step. s is the sum within [least, most]:
/// what lies beyond saturates. Where the 16 bits below the result have none of `safe_bits`, a tie may lie between.
/// Arrays in lane order.
struct FixedWords {
  std::vector<double> ratio;
  std::vector<double> offset;
  std::vector<std::int32_t> least;
  std::vector<std::int32_t> most;
  std::vector<int> bits;
  std::vector<std::int64_t> shift;  ///< s = 2^bits * (a + shift) with the sum a that Requantize takes
  std::int32_t safe_bits = 0xFFFC;
  bool checked = true;  ///< as in Fixed
};

/// Output channels of a group that are computed together.
struct ConvBlock {
  std::int64_t group = 0;
  std::int64_t channel = 0;   ///< first, in the group
  std::int64_t channels = 0;  ///< at most 16 * vectors
  std::int64_t vectors = 0;   ///< 1, 2 or 4 of 16 channels each
  std::size_t weights = 0;    ///< where its bytes begin
  std::size_t lanes = 0;      ///< where its entries of arrays in lane order begin
};

/// Weights in the order in which the tiles read them: per block, tap, four input channels (two if they are words),
/// vector: 16 channels of as many bytes. Lane order: blocks one after the other, in a block by vector and lane.
struct ConvWeights {
  AlignedBytes packed;
  std::vector<std::int32_t> start;    ///< what each sum starts from
  std::vector<std::int32_t> padding;  ///< [taps][lanes]: what a tap adds to the sums where it reads padding
  std::vector<std::int64_t> channel;  ///< [lanes]: output channel (of all groups), -1 beyond the last
  std::vector<ConvBlock> blocks;
  std::size_t lanes = 0;
  std::vector<std::int64_t> tap_offsets;  ///< [taps]
  std::vector<std::int32_t> tap_numbers;  ///< [taps]
  std::vector<std::uint8_t> padding_row;  ///< what taps outside the image read
};

/// How lanes are ordered in a block: as the channels, or as storing bytes or words brings them into order.
enum class LaneOrder : std::uint8_t { plain, bytes, words };

/// Packs weights [groups * out_channels][taps][inputs of the group] and starts [groups * out_channels].
/// `most_vectors`: of a block.
ConvWeights pack_conv(const ConvGeometry& g, const std::int8_t* weights, const std::int32_t* start, LaneOrder order,
                      std::int64_t most_vectors = 4);
/// Whether tiles should be whole rows: images so narrow that much of a row of taps at the border reads padding.
bool prefers_rows(const ConvGeometry& g);

/// The channel, within a block, of lane `lane` of vector `vector` when lanes are interleaved: so that packing words to
/// bytes brings channels into order.
constexpr std::int64_t interleaved_channel(std::int64_t vectors, std::int64_t vector, std::int64_t lane) {
  if (vectors == 4) return 16 * (lane / 4) + 8 * (vector / 2) + 2 * (lane % 4) + vector % 2;
  if (vectors == 2) return 8 * (lane / 4) + 2 * (lane % 4) + vector;
  return lane;
}

/// The same where pairs of vectors are stored as 32 words.
constexpr std::int64_t interleaved_word(std::int64_t vectors, std::int64_t vector, std::int64_t lane) {
  return vectors == 1 ? lane : vector / 2 * 32 + 2 * lane + vector % 2;
}

constexpr int kMostPixels = 8;  ///< of a tile

struct TileArgs {
  const std::uint8_t* const* in = nullptr;  ///< position of each pixel; for tap t from in + t * in_step on
  std::ptrdiff_t in_step = 0;
  const std::int64_t* offsets = nullptr;  ///< [taps], added to the positions
  const std::int32_t* numbers = nullptr;  ///< [taps]: which taps these are, for the weights
  std::int64_t taps = 0;
  std::int64_t quads = 0;
  // So many tiles one after the other, each so many bytes behind the one before. More than one only with `fixed` or
  // `fixed_words`.
  std::int64_t count = 1;
  std::int64_t in_advance = 0;
  std::int64_t out_advance = 0;
  const std::int8_t* weights = nullptr;  ///< of the block
  const std::int32_t* start = nullptr;   ///< of the block
  std::int64_t plane = 0;                ///< if not 0: from high bytes to low ones; sums are 256 * high + low
  // Either int32 sums, [pixels][16 * vectors] ...
  std::int32_t* raw = nullptr;
  // ... or bytes ...
  const Fixed* fixed = nullptr;
  // ... or words.
  const FixedWords* fixed_words = nullptr;
  std::uint16_t flip = 0;              ///< of the input, as in ConvGeometry
  std::size_t lane = 0;                ///< of the block, in arrays in lane order
  std::int64_t channels = 0;           ///< of the block
  std::uint8_t* const* out = nullptr;  ///< of each pixel, at the block's first channel
  const Requantize* q = nullptr;       ///< decides what Fixed does not
  std::size_t first_channel = 0;       ///< of the block, of all groups
};
using TileFunction = void (*)(const TileArgs& args);

/// Rounds the sums of a tile. For wide activations there are two sums for each output, of the high and of the low
/// bytes.
struct FinishArgs {
  const std::int32_t* sums = nullptr;          ///< [pixels][stride]
  const std::int32_t* low_sums = nullptr;      ///< null unless activations are wide: then value = 256 * sums + low_sums
  const std::int32_t* pixel_terms = nullptr;   ///< [pixels]: sums of the activations; null where weights have no zero
  const std::int32_t* weight_zeros = nullptr;  ///< [channels]: how often the pixel's term is to be subtracted
  std::int64_t pixels = 0;
  std::int64_t stride = 0;
  std::int64_t channels = 0;
  std::size_t first_channel = 0;
  std::byte* const* out = nullptr;
  const Requantize* q = nullptr;
};
using FinishFunction = void (*)(const FinishArgs& args);

/// What an instruction set brings.
struct ConvFunctions {
  TileFunction (*tile)(std::int64_t pixels, std::int64_t vectors);
  std::int64_t (*most_pixels)(std::int64_t vectors);
  bool fixed;  ///< tiles can store bytes
  FinishFunction to_bytes;
  FinishFunction to_words;
  bool planes = false;                            ///< tiles can sum both planes
  void (*order)(AlignedBytes& packed) = nullptr;  ///< another order within each 64 bytes of weights
};

ConvFunctions conv_portable();
ConvFunctions conv_avx2();         ///< vpmaddwd on 16-bit operands: exact
ConvFunctions conv_avx512();       ///< the same, 512 bits wide
ConvFunctions conv_avx512_vnni();  ///< vpdpbusd
/// vpdpwssd: 16-bit activations and weights to 16-bit results, for ConvGeometry::words and FixedWords alone.
ConvFunctions conv_words_avx512_vnni();

enum class ConvResult : std::uint8_t { fixed, fixed_words, bytes, words };

/// One prepared convolution. Immutable.
struct Conv {
  ConvGeometry geometry;
  ConvWeights weights;
  ConvFunctions functions{};
  ConvResult result = ConvResult::bytes;
  Fixed fixed;
  FixedWords fixed_words;
  std::vector<std::int32_t> weight_zeros;  ///< [groups * out_channels]; empty where weights have none left
  bool wide = false;                       ///< the input has a plane of high bytes, and one of low bytes behind it
  std::int64_t plane_bytes = 0;            ///< from the high plane to the low one
  std::int64_t padding_at = 0;             ///< where in each plane a position of padding lies
  bool one_sum = false;                    ///< 256 * high + low fits in int32, and the tiles can sum it

  bool rows = false;          ///< tiles are whole rows
  std::int64_t chunk = 1;     ///< output pixels that stay in the cache while the blocks pass
  std::int64_t chunks = 1;    ///< of an image
  bool blocks_first = false;  ///< all chunks of an image pass before the next block: where weights weigh more

  std::int64_t units() const { return geometry.batch * chunks * static_cast<std::int64_t>(weights.blocks.size()); }
  /// Computes units [first, last) of units(); they are independent. `in` is readable 3 bytes beyond its end where
  /// channels are no multiple of 4.
  void run(const std::uint8_t* in, const Requantize& q, std::byte* out, std::int64_t first, std::int64_t last) const;
  /// Sets chunk and chunks.
  void divide(int threads);
};

}  // namespace halfeven::kernels
