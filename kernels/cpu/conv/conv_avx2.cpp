// vpmaddwd on operands widened to 16 bits: products and their pair sums are exact, unlike those of vpmaddubsw.
#ifdef __AVX2__
#include <immintrin.h>

#include <array>
#include <cstring>
#include <utility>

#include "cpu/conv/conv.hpp"
#include "cpu/conv/finish.hpp"
#include "cpu/requantize_avx2.hpp"

namespace halfeven::kernels {
namespace {

// M pixels, 16 channels: four vectors of four channels, each channel with two partial sums side by side.
template <std::int64_t M>
void tile16(const TileArgs& t, std::int64_t vector, std::int64_t vectors) {
  __m256i sums[M][4];
  for (auto& row : sums) {
    for (__m256i& sum : row) sum = _mm256_setzero_si256();
  }
  for (std::int64_t k = 0; k < t.taps; ++k) {
    const std::int8_t* w = t.weights + (t.numbers[k] * t.quads * vectors + vector) * 64;
    const std::uint8_t* in[M];
    for (std::int64_t m = 0; m < M; ++m) in[m] = t.in[k * t.in_step + m] + t.offsets[k];
    for (std::int64_t c = 0; c < 4 * t.quads; c += 4, w += vectors * 64) {
      __m256i factors[4];
      for (int v = 0; v < 4; ++v) {
        factors[v] = _mm256_cvtepi8_epi16(_mm_load_si128(reinterpret_cast<const __m128i*>(w + 16 * v)));
      }
      for (std::int64_t m = 0; m < M; ++m) {
        std::int32_t four;
        std::memcpy(&four, in[m] + c, sizeof four);
        const __m256i x = _mm256_cvtepu8_epi16(_mm_set1_epi32(four));
        for (int v = 0; v < 4; ++v) {
          sums[m][v] = _mm256_add_epi32(sums[m][v], _mm256_madd_epi16(x, factors[v]));
        }
      }
    }
  }
  for (std::int64_t m = 0; m < M; ++m) {
    for (int half = 0; half < 2; ++half) {
      const __m256i pairs = _mm256_hadd_epi32(sums[m][2 * half], sums[m][2 * half + 1]);
      const __m256i start = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(t.start + 16 * vector + 8 * half));
      std::int32_t* to = t.raw + (m * vectors + vector) * 16 + 8 * half;
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                          _mm256_add_epi32(start, _mm256_permute4x64_epi64(pairs, 0xD8)));
    }
  }
}

template <std::int64_t M, std::int64_t B>
void tile(const TileArgs& t) {
  for (std::int64_t v = 0; v < B; ++v) tile16<M>(t, v, B);
}

TileFunction pick(std::int64_t pixels, std::int64_t vectors) {
  static constexpr TileFunction kTiles[2][3] = {{tile<1, 1>, tile<1, 2>, tile<1, 4>},
                                                {tile<2, 1>, tile<2, 2>, tile<2, 4>}};
  return kTiles[pixels - 1][vectors / 2];
}

// Eight sums for each pixel and vector leave room for two pixels in sixteen registers.
std::int64_t most(std::int64_t) { return 2; }

void finish(const FinishArgs& f) {
  if (f.low_sums != nullptr || f.pixel_terms != nullptr) return finish_bytes(f);
  for (std::int64_t m = 0; m < f.pixels; ++m) {
    auto* out = reinterpret_cast<std::uint8_t*>(f.out[m]);
    requantize_row_avx2(*f.q, f.first_channel, f.sums + m * f.stride, f.channels, out);
  }
}

}  // namespace

ConvFunctions conv_avx2() { return {pick, most, false, finish, finish_words}; }

}  // namespace halfeven::kernels

#else  // another processor: the name stands, the portable code serves
#include "cpu/conv/conv.hpp"
namespace halfeven::kernels {
ConvFunctions conv_avx2() { return conv_portable(); }
}  // namespace halfeven::kernels
#endif
