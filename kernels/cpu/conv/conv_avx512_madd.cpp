// AVX-512 without VNNI: vpmaddwd on operands widened to 16 bits, exact.
#ifdef __AVX512BW__
#include <immintrin.h>

#include <cstring>

#include "cpu/conv/conv.hpp"
#include "cpu/conv/finish_avx512.hpp"

namespace halfeven::kernels {
namespace {

// M pixels, 16 channels: two vectors of eight channels, each channel with two partial sums side by side.
template <std::int64_t M>
void tile16(const TileArgs& t, std::int64_t vector, std::int64_t vectors) {
  __m512i sums[M][2];
  for (auto& row : sums) {
    for (__m512i& sum : row) sum = _mm512_setzero_si512();
  }
  for (std::int64_t k = 0; k < t.taps; ++k) {
    const std::int8_t* w = t.weights + (t.numbers[k] * t.quads * vectors + vector) * 64;
    const std::uint8_t* in[M];
    for (std::int64_t m = 0; m < M; ++m) in[m] = t.in[k * t.in_step + m] + t.offsets[k];
    for (std::int64_t c = 0; c < 4 * t.quads; c += 4, w += vectors * 64) {
      __m512i factors[2];
      for (int v = 0; v < 2; ++v) {
        factors[v] = _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(w + 32 * v)));
      }
      for (std::int64_t m = 0; m < M; ++m) {
        std::int32_t four;
        std::memcpy(&four, in[m] + c, sizeof four);
        const __m512i x = _mm512_cvtepu8_epi16(_mm256_set1_epi32(four));
        for (int v = 0; v < 2; ++v) {
          sums[m][v] = _mm512_add_epi32(sums[m][v], _mm512_madd_epi16(x, factors[v]));
        }
      }
    }
  }
  // Even lanes of both vectors plus odd ones.
  const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  const __m512i odd = _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
  const __m512i start = _mm512_loadu_si512(t.start + 16 * vector);
  for (std::int64_t m = 0; m < M; ++m) {
    const __m512i sum = _mm512_add_epi32(_mm512_permutex2var_epi32(sums[m][0], even, sums[m][1]),
                                         _mm512_permutex2var_epi32(sums[m][0], odd, sums[m][1]));
    _mm512_storeu_si512(t.raw + (m * vectors + vector) * 16, _mm512_add_epi32(start, sum));
  }
}

template <std::int64_t M, std::int64_t B>
void tile(const TileArgs& t) {
  for (std::int64_t v = 0; v < B; ++v) tile16<M>(t, v, B);
}

template <std::int64_t B>
TileFunction pick_pixels(std::int64_t pixels) {
  static constexpr TileFunction kTiles[8] = {tile<1, B>, tile<2, B>, tile<3, B>, tile<4, B>,
                                             tile<5, B>, tile<6, B>, tile<7, B>, tile<8, B>};
  return kTiles[pixels - 1];
}

TileFunction pick(std::int64_t pixels, std::int64_t vectors) {
  return vectors == 4 ? pick_pixels<4>(pixels) : (vectors == 2 ? pick_pixels<2>(pixels) : pick_pixels<1>(pixels));
}

std::int64_t most(std::int64_t) { return kMostPixels; }

}  // namespace

ConvFunctions conv_avx512() { return {pick, most, false, finish_bytes_avx512, finish_words_avx512}; }

}  // namespace halfeven::kernels

#else  // another processor: the name stands, the portable code serves
#include "cpu/conv/conv.hpp"
namespace halfeven::kernels {
ConvFunctions conv_avx512() { return conv_portable(); }
}  // namespace halfeven::kernels
#endif
