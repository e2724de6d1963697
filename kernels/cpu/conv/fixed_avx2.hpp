// The 16.16 requantisation of eight lanes (Fixed in conv.hpp). Only for files compiled for AVX2 and FMA.
#pragma once

#include <immintrin.h>

#include <cstddef>

#include "cpu/conv/conv.hpp"
#include "cpu/unroll.hpp"

namespace halfeven::kernels {

/// What Fixed needs, in registers or close to them.
struct FixedLanes8 {
  __m256 least;  // limits that saturate, with low words that are no ties
  __m256 most;
  __m256i safe;
  __m256i lo;
  __m256i hi;
  bool clamp;
  bool checked;

  [[gnu::always_inline]] explicit FixedLanes8(const Fixed& f)
      : least(_mm256_set1_ps(-0x1.fffffcp30F)),
        most(_mm256_set1_ps(0x1.fffffcp30F)),
        safe(_mm256_set1_epi32(f.safe_bits)),
        lo(_mm256_set1_epi8(static_cast<char>(f.lo))),
        hi(_mm256_set1_epi8(static_cast<char>(f.hi))),
        clamp(f.clamp),
        checked(f.checked) {}
};

[[gnu::always_inline]] inline __m256i to_words(__m256i sums, const float* ratio, const float* offset,
                                               const FixedLanes8& f) {
  __m256 t = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums), _mm256_loadu_ps(ratio), _mm256_loadu_ps(offset));
  if (f.clamp) t = _mm256_min_ps(_mm256_max_ps(t, f.least), f.most);
  return _mm256_cvtps_epi32(t);
}

/// Whether Fixed leaves a lane open, of those whose words' unsigned 16-bit minimum this is.
[[gnu::always_inline]] inline bool any_open(__m256i least, const FixedLanes8& f) {
  const __m256i open = _mm256_cmpeq_epi32(_mm256_and_si256(least, f.safe), _mm256_setzero_si256());
  return _mm256_testz_si256(open, open) == 0;
}

[[gnu::always_inline]] inline __m256i limit(__m256i bytes, const FixedLanes8& f) {
  return _mm256_min_epu8(_mm256_max_epu8(bytes, f.lo), f.hi);
}

}  // namespace halfeven::kernels
