// vpdpbusd over tiles of up to 6 pixels x 64 output channels; the sums never leave the registers.
#ifdef __AVX512VNNI__
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "cpu/conv/conv.hpp"
#include "cpu/requantize_avx512.hpp"

namespace halfeven::kernels {
namespace {

constexpr std::int64_t kLanes = 16;

// Unrolled by the front end: indices stay constants, so the accumulators stay in registers.
template <std::size_t... I, class F>
[[gnu::always_inline]] inline void unroll(std::index_sequence<I...>, F&& f) {
  (f(std::integral_constant<std::size_t, I>{}), ...);
}
template <std::size_t N, class F>
[[gnu::always_inline]] inline void unroll(F&& f) {
  unroll(std::make_index_sequence<N>{}, std::forward<F>(f));
}

struct Tile {
  const ConvShape* shape;
  const std::uint8_t* input;   // first tap of the first pixel, at the group's channels
  const std::int8_t* weights;  // of the first block
  std::int64_t block_bytes;
  const std::int32_t* start;
  std::size_t channel;
  std::int64_t channels;  // that are left in the group
  std::uint8_t* out;      // first pixel, first channel
  const Requantize* q;
  const RequantizeLanes* lanes;
};

// M pixels, B blocks of 16 channels.
template <std::size_t M, std::size_t B>
void tile(const Tile& t) {
  const ConvShape& s = *t.shape;
  __m512i sums[M][B];
  unroll<B>([&](auto b) {
    const __m512i start = _mm512_loadu_si512(t.start + b * kLanes);
    unroll<M>([&](auto m) { sums[m][b] = start; });
  });
  const std::int64_t step = s.stride_w * s.pixel();
  const std::int8_t* w = t.weights;
  for (std::int64_t ky = 0; ky < s.kernel_h; ++ky) {
    for (std::int64_t kx = 0; kx < s.kernel_w; ++kx) {
      const std::uint8_t* in = t.input + (ky * s.dilation_h * s.width + kx * s.dilation_w) * s.pixel();
      for (std::int64_t c = 0; c < s.channels; c += 4, w += kLanes * 4) {
        __m512i factors[B];
        unroll<B>([&](auto b) { factors[b] = _mm512_loadu_si512(w + static_cast<std::int64_t>(b) * t.block_bytes); });
        unroll<M>([&](auto m) {
          std::int32_t four;
          std::memcpy(&four, in + static_cast<std::int64_t>(m) * step + c, sizeof four);
          const __m512i x = _mm512_set1_epi32(four);
          unroll<B>([&](auto b) { sums[m][b] = _mm512_dpbusd_epi32(sums[m][b], x, factors[b]); });
        });
      }
    }
  }
  const std::int64_t out_pixel = s.groups * s.out_channels;
  unroll<B>([&](auto b) {
    const std::int64_t left = t.channels - static_cast<std::int64_t>(b) * kLanes;
    const auto mask = static_cast<__mmask16>(left >= kLanes ? 0xFFFF : (1U << left) - 1);
    const std::size_t channel = t.channel + b * kLanes;
    unroll<M>([&](auto m) {
      const __m512i y = requantize_lanes(*t.q, *t.lanes, channel, sums[m][b]);
      _mm_mask_storeu_epi8(t.out + static_cast<std::int64_t>(m) * out_pixel + b * kLanes, mask,
                           _mm512_cvtepi32_epi8(y));
    });
  });
}

using TileFunction = void (*)(const Tile&);

// Up to so many pixels with B blocks of channels: sums, weights and a broadcast fill the 32 registers. (Weights as
// memory operands allow 7 pixels of 4 blocks, but then loads, not products, set the pace: measured slower.)
template <std::size_t B>
constexpr std::size_t kPixels = B == 4 ? 6 : (B == 3 ? 8 : 12);

template <std::size_t B>
TileFunction tile_of(std::int64_t pixels) {
  static constexpr auto kTiles = []<std::size_t... M>(std::index_sequence<M...>) {
    return std::array<TileFunction, sizeof...(M)>{tile<M + 1, B>...};
  }(std::make_index_sequence<kPixels<B>>{});
  return kTiles[static_cast<std::size_t>(pixels - 1)];
}

TileFunction tile_of(std::int64_t pixels, std::int64_t blocks) {
  switch (blocks) {
    case 1: return tile_of<1>(pixels);
    case 2: return tile_of<2>(pixels);
    case 3: return tile_of<3>(pixels);
    default: return tile_of<4>(pixels);
  }
}

std::int64_t most_pixels(std::int64_t blocks) {
  return static_cast<std::int64_t>(blocks == 4 ? kPixels<4> : (blocks == 3 ? kPixels<3> : kPixels<2>));
}

}  // namespace

void conv_avx512_vnni(const ConvShape& s, const std::uint8_t* input, const ConvWeights& weights, const Requantize& q,
                      std::uint8_t* out, std::int64_t first, std::int64_t last) {
  const RequantizeLanes lanes(q);
  const std::int64_t block_bytes = s.kernel_h * s.kernel_w * s.channels * kLanes;
  const std::int64_t out_pixel = s.groups * s.out_channels;
  for (std::int64_t g = 0; g < s.groups; ++g) {
    for (std::int64_t b = 0; b < weights.blocks; b += 4) {
      const std::int64_t blocks = std::min<std::int64_t>(4, weights.blocks - b);
      const std::int64_t block = g * weights.blocks + b;
      for (std::int64_t row = first; row < last; ++row) {
        const std::int64_t n = row / s.out_height;
        const std::int64_t y = row % s.out_height * s.stride_h;
        // Tiles of nearly equal length: a short one at the end would waste its loads.
        const std::int64_t most = most_pixels(blocks);
        const std::int64_t tiles = (s.out_width + most - 1) / most;
        for (std::int64_t k = 0, ox = 0; k < tiles; ++k) {
          const std::int64_t pixels = s.out_width * (k + 1) / tiles - ox;
          const Tile t{&s,
                       input + ((n * s.height + y) * s.width + ox * s.stride_w) * s.pixel() + g * s.channels,
                       weights.packed.data() + block * block_bytes,
                       block_bytes,
                       weights.start.data() + block * kLanes,
                       static_cast<std::size_t>(g * s.out_channels + b * kLanes),
                       s.out_channels - b * kLanes,
                       out + (row * s.out_width + ox) * out_pixel + g * s.out_channels + b * kLanes,
                       &q,
                       &lanes};
          tile_of(pixels, blocks)(t);
          ox += pixels;
        }
      }
    }
  }
}

}  // namespace halfeven::kernels

#else  // another processor: the name stands, the portable code serves
#include "cpu/conv/conv.hpp"
namespace halfeven::kernels {
void conv_avx512_vnni(const ConvShape& shape, const std::uint8_t* input, const ConvWeights& weights,
                      const Requantize& requantize, std::uint8_t* out, std::int64_t first, std::int64_t last) {
  conv_portable(shape, input, weights, requantize, out, first, last);
}
}  // namespace halfeven::kernels
#endif
