// Convolution in plain C++.
#include <array>

#include "cpu/conv/conv.hpp"
#include "cpu/conv/finish.hpp"

namespace halfeven::kernels {
namespace {

template <class Out, class F>
void each(const FinishArgs& f, F&& value) {
  for (std::int64_t m = 0; m < f.pixels; ++m) {
    Out* out = reinterpret_cast<Out*>(f.out[m]);
    for (std::int64_t c = 0; c < f.channels; ++c) {
      out[c] = static_cast<Out>(value(f.first_channel + static_cast<std::size_t>(c), wide_sum(f, m, c)));
    }
  }
}

void tile(const TileArgs& t, std::int64_t pixels, std::int64_t vectors) {
  const std::int64_t lanes = 16 * vectors;
  for (std::int64_t m = 0; m < pixels; ++m) {
    std::array<std::int32_t, 64> sums;
    for (std::int64_t l = 0; l < lanes; ++l) sums[static_cast<std::size_t>(l)] = t.start[l];
    for (std::int64_t k = 0; k < t.taps; ++k) {
      const std::uint8_t* in = t.in[k * t.in_step + m] + t.offsets[k];
      const std::int8_t* w = t.weights + t.numbers[k] * t.quads * lanes * 4;
      for (std::int64_t quad = 0; quad < t.quads; ++quad, in += 4) {
        for (std::int64_t l = 0; l < lanes; ++l, w += 4) {
          sums[static_cast<std::size_t>(l)] += in[0] * w[0] + in[1] * w[1] + in[2] * w[2] + in[3] * w[3];
        }
      }
    }
    for (std::int64_t l = 0; l < lanes; ++l) t.raw[m * lanes + l] = sums[static_cast<std::size_t>(l)];
  }
}

template <std::int64_t M, std::int64_t B>
void tile_of(const TileArgs& t) {
  tile(t, M, B);
}

TileFunction pick(std::int64_t pixels, std::int64_t vectors) {
  static constexpr TileFunction kTiles[4][3] = {{tile_of<1, 1>, tile_of<1, 2>, tile_of<1, 4>},
                                                {tile_of<2, 1>, tile_of<2, 2>, tile_of<2, 4>},
                                                {tile_of<3, 1>, tile_of<3, 2>, tile_of<3, 4>},
                                                {tile_of<4, 1>, tile_of<4, 2>, tile_of<4, 4>}};
  return kTiles[pixels - 1][vectors / 2];
}

std::int64_t most(std::int64_t) { return 4; }

}  // namespace

void finish_bytes(const FinishArgs& f) {
  each<std::uint8_t>(f, [&](std::size_t c, std::int64_t a) { return requantize(*f.q, c, a); });
}

void finish_words(const FinishArgs& f) {
  each<std::uint16_t>(f, [&](std::size_t c, std::int64_t a) { return requantize(*f.q, c, a); });
}

ConvFunctions conv_portable() { return {pick, most, false, finish_bytes, finish_words}; }

}  // namespace halfeven::kernels
