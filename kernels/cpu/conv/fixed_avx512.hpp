// The 16.16 requantisation of sixteen lanes (Fixed in conv.hpp). Only for files compiled for AVX-512.
#pragma once

#include <immintrin.h>

#include <cstddef>

#include "cpu/conv/conv.hpp"
#include "cpu/unroll.hpp"

namespace halfeven::kernels {

/// What Fixed needs in registers.
struct FixedLanes {
  __m512 least;  // limits that saturate, with low words that are no ties
  __m512 most;
  __m512i safe;
  __m512i lo;
  __m512i hi;
  bool clamp;
  bool checked;

  explicit FixedLanes(const Fixed& f)
      : least(_mm512_set1_ps(-0x1.fffffcp30F)),
        most(_mm512_set1_ps(0x1.fffffcp30F)),
        safe(_mm512_set1_epi32(f.safe_bits)),
        lo(_mm512_set1_epi8(static_cast<char>(f.lo))),
        hi(_mm512_set1_epi8(static_cast<char>(f.hi))),
        clamp(f.clamp),
        checked(f.checked) {}
};

[[gnu::always_inline]] inline __m512i to_words(__m512i sums, const float* ratio, const float* offset,
                                               const FixedLanes& f) {
  __m512 t = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), _mm512_loadu_ps(ratio), _mm512_loadu_ps(offset));
  if (f.clamp) t = _mm512_min_ps(_mm512_max_ps(t, f.least), f.most);
  return _mm512_cvtps_epi32(t);
}

}  // namespace halfeven::kernels
