#ifdef __AVX2__
#include <immintrin.h>

#include "cpu/elementwise/quantize.hpp"

namespace halfeven::kernels {

std::size_t quantize_avx2(const QuantizeFloats& q, const float* in, std::uint8_t* out, std::size_t first,
                          std::size_t last) {
  const __m256 scale = _mm256_set1_ps(q.scale);
  const __m256 lo = _mm256_set1_ps(static_cast<float>(q.lo - q.zero));
  const __m256 hi = _mm256_set1_ps(static_cast<float>(q.hi - q.zero));
  // A float quotient of at most 2^9 errs by half an ulp, 2^-16; closer to a tie the portable code decides.
  const __m256 tie = _mm256_set1_ps(0.5F - 0x1p-14F);
  const __m256 sign = _mm256_set1_ps(-0.0F);
  const __m256i zero = _mm256_set1_epi32(q.zero);
  std::size_t i = first;
  for (; i + 16 <= last; i += 16) {
    int open = 0;  // lanes that are NaN or too close to a tie
    const auto eight = [&](const float* from) {
      const __m256 x = _mm256_loadu_ps(from);
      const __m256 t = _mm256_min_ps(_mm256_max_ps(_mm256_div_ps(x, scale), lo), hi);
      const __m256 whole = _mm256_round_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      const __m256 near = _mm256_cmp_ps(_mm256_andnot_ps(sign, _mm256_sub_ps(t, whole)), tie, _CMP_GE_OQ);
      open |= _mm256_movemask_ps(_mm256_or_ps(near, _mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
      return _mm256_and_si256(_mm256_add_epi32(_mm256_cvtps_epi32(whole), zero), _mm256_set1_epi32(0xFF));
    };
    const __m256i low = eight(in + i);
    const __m256i high = eight(in + i + 8);
    if (__builtin_expect(open != 0, 0)) {
      const std::size_t end = quantize_portable(q, in, out, i, i + 16);
      if (end != i + 16) return end;
      continue;
    }
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xD8);
    const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), bytes);
  }
  return quantize_portable(q, in, out, i, last);
}

}  // namespace halfeven::kernels

#else  // another processor: the name stands, the portable code serves
#include "cpu/elementwise/quantize.hpp"
namespace halfeven::kernels {
std::size_t quantize_avx2(const QuantizeFloats& q, const float* in, std::uint8_t* out, std::size_t first,
                          std::size_t last) {
  return quantize_portable(q, in, out, first, last);
}
}  // namespace halfeven::kernels
#endif
