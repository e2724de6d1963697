#include "cpu/conv/split_words.hpp"
#ifdef __AVX512BW__
#include <immintrin.h>

namespace halfeven::kernels {

void split_words_avx512(const std::uint16_t* words, std::uint8_t* high, std::uint8_t* low, std::int64_t count,
                        std::uint16_t flip) {
  const __m512i flips = _mm512_set1_epi16(static_cast<short>(flip));
  for (std::int64_t i = 0; i < count; i += 32) {
    const auto lanes = static_cast<__mmask32>(count - i >= 32 ? 0xFFFFFFFF : (1U << (count - i)) - 1);
    const __m512i v = _mm512_xor_si512(_mm512_maskz_loadu_epi16(lanes, words + i), flips);
    _mm256_mask_storeu_epi8(high + i, lanes, _mm512_cvtepi16_epi8(_mm512_srli_epi16(v, 8)));
    _mm256_mask_storeu_epi8(low + i, lanes, _mm512_cvtepi16_epi8(v));
  }
}

}  // namespace halfeven::kernels

#else  // another processor: the name stands, the portable code serves
namespace halfeven::kernels {
void split_words_avx512(const std::uint16_t* words, std::uint8_t* high, std::uint8_t* low, std::int64_t count,
                        std::uint16_t flip) {
  split_words_portable(words, high, low, count, flip);
}
}  // namespace halfeven::kernels
#endif
