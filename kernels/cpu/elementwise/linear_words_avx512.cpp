#include "cpu/elementwise/linear_words.hpp"
#ifdef __AVX512BW__
#include <immintrin.h>

#include "cpu/words_avx512.hpp"

namespace halfeven::kernels {

namespace {

// Results are in the upper halves of doubles, above what is below a step.
void in_units(const LinearWords& f, const std::uint16_t* in, std::uint16_t* out, std::int64_t first,
              std::int64_t last) {
  const auto same = [](std::uint16_t v) { return _mm512_set1_epi16(static_cast<short>(v)); };
  const __m512i in_flip = same(f.in_flip);
  const __m512i out_flip = same(f.out_flip);
  const __m512i low = _mm512_set1_epi32(0xFFFF);
  constexpr std::int32_t kUpper = 0x43380000;  // the upper half of kLinearWhole
  const __m512i least = _mm512_set1_epi32(kUpper + f.lo);
  const __m512i most = _mm512_set1_epi32(kUpper + f.hi);
  const __m512d ratio = _mm512_set1_pd(f.ratio * kLinearUnit);
  const __m512d offset = _mm512_set1_pd(linear_offset(f));
  const __m512i odd = _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
  const auto half = [&](__m512i x) __attribute__((always_inline)) {
    const __m512d t0 = _mm512_fmadd_pd(low_doubles(x), ratio, offset);
    const __m512d t1 = _mm512_fmadd_pd(high_doubles(x), ratio, offset);
    const __m512i y = _mm512_permutex2var_epi32(_mm512_castpd_si512(t0), odd, _mm512_castpd_si512(t1));
    return _mm512_min_epi32(_mm512_max_epi32(y, least), most);
  };
  for (std::int64_t i = first; i < last; i += 32) {
    const auto lanes = static_cast<__mmask32>(last - i >= 32 ? 0xFFFFFFFF : (1U << (last - i)) - 1);
    const __m512i codes = _mm512_xor_si512(_mm512_maskz_loadu_epi16(lanes, in + i), in_flip);
    const __m512i even_places = half(_mm512_and_si512(codes, low));
    const __m512i odd_places = half(_mm512_srli_epi32(codes, 16));
    const __m512i y = _mm512_mask_mov_epi16(even_places, 0xAAAAAAAA, _mm512_slli_epi32(odd_places, 16));
    _mm512_mask_storeu_epi16(out + i, lanes, _mm512_xor_si512(y, out_flip));
  }
}

}  // namespace

void linear_words_avx512(const LinearWords& f, const std::uint16_t* in, std::uint16_t* out, std::int64_t first,
                         std::int64_t last) {
  if (f.units) return in_units(f, in, out, first, last);
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
