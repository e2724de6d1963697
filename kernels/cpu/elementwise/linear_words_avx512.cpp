#include "cpu/elementwise/linear_words.hpp"
#ifdef __AVX512BW__
#include <immintrin.h>

#include "cpu/words_avx512.hpp"

namespace halfeven::kernels {

void linear_words_avx512(const LinearWords& f, const std::uint16_t* in, std::uint16_t* out, std::int64_t first,
                         std::int64_t last) {
  const auto same = [](std::uint16_t v) { return _mm512_set1_epi16(static_cast<short>(v)); };
  const __m512i in_flip = same(f.in_flip);
  const __m512i out_flip = same(f.out_flip);
  const __m512i lo = same(f.lo);
  const __m512i hi = same(f.hi);
  const __m512d ratio = _mm512_set1_pd(f.ratio);
  const __m512d offset = _mm512_set1_pd(f.offset);
  const __m512d magic = _mm512_set1_pd(0x1.8p52);  // rounds, half to even
  const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  const __m512i order = _mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0);  // undoes what packing 128 bits by 128 does
  const auto half = [&](__m256i codes) __attribute__((always_inline)) {
    const __m512i x = _mm512_cvtepu16_epi32(codes);
    const __m512d t0 = _mm512_add_pd(_mm512_fmadd_pd(low_doubles(x), ratio, offset), magic);
    const __m512d t1 = _mm512_add_pd(_mm512_fmadd_pd(high_doubles(x), ratio, offset), magic);
    return _mm512_permutex2var_epi32(_mm512_castpd_si512(t0), even, _mm512_castpd_si512(t1));
  };
  for (std::int64_t i = first; i < last; i += 32) {
    const auto lanes = static_cast<__mmask32>(last - i >= 32 ? 0xFFFFFFFF : (1U << (last - i)) - 1);
    const __m512i codes = _mm512_xor_si512(_mm512_maskz_loadu_epi16(lanes, in + i), in_flip);
    const __m512i words =
        _mm512_packus_epi32(half(_mm512_castsi512_si256(codes)), half(_mm512_extracti64x4_epi64(codes, 1)));
    const __m512i y = _mm512_min_epu16(_mm512_max_epu16(_mm512_permutexvar_epi64(order, words), lo), hi);
    _mm512_mask_storeu_epi16(out + i, lanes, _mm512_xor_si512(y, out_flip));
  }
}

}  // namespace halfeven::kernels

#else  // another processor: the name stands, the portable code serves
namespace halfeven::kernels {
void linear_words_avx512(const LinearWords& f, const std::uint16_t* in, std::uint16_t* out, std::int64_t first,
                         std::int64_t last) {
  for (std::int64_t i = first; i < last; ++i) out[i] = linear_word(f, in[i]);
}
}  // namespace halfeven::kernels
#endif
