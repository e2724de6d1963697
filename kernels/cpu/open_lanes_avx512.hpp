// Lanes that a rounding with a margin leaves open. Only for files compiled for AVX-512.
#pragma once

#include <immintrin.h>

namespace halfeven::kernels {

/// f(lane) for each of the sixteen lanes whose word has none of the bits of `safe`.
template <class F>
[[gnu::always_inline]] inline void for_open_lanes(__m512i words, __m512i safe, F f) {
  for (unsigned open = _mm512_testn_epi32_mask(words, safe); open != 0; open &= open - 1) f(__builtin_ctz(open));
}

}  // namespace halfeven::kernels
