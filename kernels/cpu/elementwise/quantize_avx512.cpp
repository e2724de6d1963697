#ifdef __AVX512F__
#include <immintrin.h>

#include "cpu/elementwise/quantize.hpp"

namespace halfeven::kernels {

std::size_t quantize_avx512(const QuantizeFloats& q, const float* in, std::uint8_t* out, std::size_t first,
                            std::size_t last) {
  const __m512 scale = _mm512_set1_ps(q.scale);
  const __m512 lo = _mm512_set1_ps(static_cast<float>(q.lo - q.zero));
  const __m512 hi = _mm512_set1_ps(static_cast<float>(q.hi - q.zero));
  // A float quotient of at most 2^9 errs by half an ulp, 2^-16; closer to a tie the portable code decides.
  const __m512 tie = _mm512_set1_ps(0.5F - 0x1p-14F);
  const __m512i zero = _mm512_set1_epi32(q.zero);
  std::size_t i = first;
  for (; i + 16 <= last; i += 16) {
    const __m512 x = _mm512_loadu_ps(in + i);
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    const __m512 t = _mm512_min_ps(_mm512_max_ps(_mm512_div_ps(x, scale), lo), hi);
    const __m512 rest = _mm512_reduce_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __mmask16 near = _mm512_cmp_ps_mask(_mm512_abs_ps(rest), tie, _CMP_GE_OQ);
    if (__builtin_expect((nan | near) != 0, 0)) {
      const std::size_t at = quantize_portable(q, in, out, i, i + 16);
      if (at < i + 16) return at;
      continue;
    }
    const __m512i y = _mm512_add_epi32(_mm512_cvtps_epi32(t), zero);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm512_cvtepi32_epi8(y));
  }
  return quantize_portable(q, in, out, i, last);
}

}  // namespace halfeven::kernels

#else  // another processor: the name stands, the portable code serves
#include "cpu/elementwise/quantize.hpp"
namespace halfeven::kernels {
std::size_t quantize_avx512(const QuantizeFloats& q, const float* in, std::uint8_t* out, std::size_t first,
                            std::size_t last) {
  return quantize_portable(q, in, out, first, last);
}
}  // namespace halfeven::kernels
#endif
