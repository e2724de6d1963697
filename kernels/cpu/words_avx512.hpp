// Sixteen doubles to 16-bit results. Only for files compiled for AVX-512.
#pragma once

#include <immintrin.h>

#include "common/requantize.hpp"

namespace halfeven::kernels {

/// What one call of a kernel needs in registers.
struct WordLanes {
  __m512d tie;    // 0.5 - slack
  __m512d magic;  // added to a double below 2^51 it rounds it to an integer, half to even, which the low bits hold
  __m512d least;
  __m512d most;
  __m512i even;  // the low halves of sixteen doubles
  __m512i zero;  // with 32768 for int16: results are counted from the least one of the type
  __m512i lo;    // of uint16
  __m512i hi;
  __m512i flip;
  bool checked;
  bool decided;
  bool clamp;  // doubles may exceed what int32 holds

  explicit WordLanes(const Requantize& q)
      : tie(_mm512_set1_pd(0.5 - q.slack)),
        magic(_mm512_set1_pd(0x1.8p52)),
        least(_mm512_set1_pd(-0x1p30)),
        most(_mm512_set1_pd(0x1p30)),
        even(_mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0)),
        checked(q.slack > 0),
        decided(q.decided),
        clamp(!q.fits) {
    const std::int32_t bias = q.lo < 0 ? 32768 : 0;
    zero = _mm512_set1_epi32(q.zero + bias);
    lo = _mm512_set1_epi16(static_cast<short>(static_cast<std::uint16_t>(q.lo + bias)));
    hi = _mm512_set1_epi16(static_cast<short>(static_cast<std::uint16_t>(q.hi + bias)));
    flip = _mm512_set1_epi16(static_cast<short>(static_cast<std::uint16_t>(bias)));
  }
};

[[maybe_unused]] static inline __m512d low_doubles(__m512i v) { return _mm512_cvtepi32_pd(_mm512_castsi512_si256(v)); }
[[maybe_unused]] static inline __m512d high_doubles(__m512i v) {
  return _mm512_cvtepi32_pd(_mm512_extracti64x4_epi64(v, 1));
}

/// Sixteen values rounded, zero points added; adds the bits of those too close to a tie.
[[gnu::always_inline]] inline __m512i round_doubles(__m512d t0, __m512d t1, const WordLanes& w, unsigned& near) {
  if (w.clamp) {
    t0 = _mm512_min_pd(_mm512_max_pd(t0, w.least), w.most);
    t1 = _mm512_min_pd(_mm512_max_pd(t1, w.least), w.most);
  }
  __m512d u0 = _mm512_add_pd(t0, w.magic);
  __m512d u1 = _mm512_add_pd(t1, w.magic);
  if (w.checked) {
    const __m512d d0 = _mm512_abs_pd(_mm512_sub_pd(t0, _mm512_sub_pd(u0, w.magic)));
    const __m512d d1 = _mm512_abs_pd(_mm512_sub_pd(t1, _mm512_sub_pd(u1, w.magic)));
    const __mmask8 open0 = _mm512_cmp_pd_mask(d0, w.tie, _CMP_GE_OQ);
    const __mmask8 open1 = _mm512_cmp_pd_mask(d1, w.tie, _CMP_GE_OQ);
    if (w.decided) {  // ties: first to the half that they are, then to even
      constexpr int kHalves = 1 << 4 | _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
      u0 = _mm512_mask_add_pd(u0, open0, _mm512_roundscale_pd(t0, kHalves), w.magic);
      u1 = _mm512_mask_add_pd(u1, open1, _mm512_roundscale_pd(t1, kHalves), w.magic);
    } else {
      near = _mm512_kunpackb(open1, open0);
    }
  }
  const __m512i y = _mm512_permutex2var_epi32(_mm512_castpd_si512(u0), w.even, _mm512_castpd_si512(u1));
  return _mm512_add_epi32(y, w.zero);
}

/// Sixteen rounded values as the words that are stored.
[[gnu::always_inline]] inline __m256i to_stored_words(__m512i y, const WordLanes& w) {
  const __m512i none = _mm512_setzero_si512();
  const __m256i words = _mm512_cvtusepi32_epi16(_mm512_max_epi32(y, none));
  const __m256i kept =
      _mm256_min_epu16(_mm256_max_epu16(words, _mm512_castsi512_si256(w.lo)), _mm512_castsi512_si256(w.hi));
  return _mm256_xor_si256(kept, _mm512_castsi512_si256(w.flip));
}

}  // namespace halfeven::kernels
