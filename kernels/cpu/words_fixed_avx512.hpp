// The 32.16 requantisation of sixteen lanes (FixedWords in conv.hpp). Only for files compiled for AVX-512.
#pragma once

#include <immintrin.h>

#include <cstddef>

#include "cpu/conv/conv.hpp"
#include "cpu/words_avx512.hpp"

namespace halfeven::kernels {

/// What FixedWords needs in registers.
struct FixedWordLanes {
  __m512i even;  // the low halves of sixteen doubles
  __m512i safe;
  bool checked;

  explicit FixedWordLanes(const FixedWords& f)
      : even(_mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0)),
        safe(_mm512_set1_epi32(f.safe_bits)),
        checked(f.checked) {}
};

/// Sixteen results with their fractions, of the lanes from `lane` on.
[[gnu::always_inline]] inline __m512i to_fixed_words(__m512i sums, const FixedWords& f, std::size_t lane,
                                                     const FixedWordLanes& lanes) {
  sums = _mm512_max_epi32(sums, _mm512_loadu_si512(f.least.data() + lane));
  sums = _mm512_min_epi32(sums, _mm512_loadu_si512(f.most.data() + lane));
  const double* ratio = f.ratio.data() + lane;
  const double* offset = f.offset.data() + lane;
  const __m512d t0 = _mm512_fmadd_pd(low_doubles(sums), _mm512_loadu_pd(ratio), _mm512_loadu_pd(offset));
  const __m512d t1 = _mm512_fmadd_pd(high_doubles(sums), _mm512_loadu_pd(ratio + 8), _mm512_loadu_pd(offset + 8));
  return _mm512_permutex2var_epi32(_mm512_castpd_si512(t0), lanes.even, _mm512_castpd_si512(t1));
}

/// The words of two vectors: a's at the even places, b's at the odd ones.
[[gnu::always_inline]] inline __m512i pack_fixed_words(__m512i a, __m512i b) {
  return _mm512_mask_mov_epi16(_mm512_srli_epi32(a, 16), 0xAAAAAAAA, b);
}

}  // namespace halfeven::kernels
