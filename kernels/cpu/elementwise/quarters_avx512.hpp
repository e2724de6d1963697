// 64 bytes as four vectors of int32, and 16.16 results back to bytes. Only for files compiled for AVX-512.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace halfeven::kernels {

/// Of every four bytes the one numbered `k`.
template <int k>
[[gnu::always_inline]] inline __m512i quarter(__m512i bytes) {
  const __m512i order =
      _mm512_broadcast_i32x4(_mm_setr_epi8(k, -1, -1, -1, 4 + k, -1, -1, -1, 8 + k, -1, -1, -1, 12 + k, -1, -1, -1));
  return _mm512_shuffle_epi8(bytes, order);
}

/// The high words of the four quarters' results, saturated to [lo, hi] (of 64 equal bytes), in the bytes' order.
[[gnu::always_inline]] inline __m512i join_quarters(const __m512i (&words)[4], __m512i lo, __m512i hi) {
  constexpr __mmask32 kOdd = 0xAAAAAAAA;
  const __m512i even = _mm512_mask_mov_epi16(_mm512_srli_epi32(words[0], 16), kOdd, words[2]);
  const __m512i odd = _mm512_mask_mov_epi16(_mm512_srli_epi32(words[1], 16), kOdd, words[3]);
  const __m512i bytes = _mm512_min_epu8(_mm512_max_epu8(_mm512_packus_epi16(even, odd), lo), hi);
  // Each 128 bits hold bytes 0 and 2 of every four, then 1 and 3.
  const __m512i order = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15));
  return _mm512_shuffle_epi8(bytes, order);
}

}  // namespace halfeven::kernels
