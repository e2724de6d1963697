#ifdef __AVX512F__
#include <immintrin.h>

#include "cpu/elementwise/quantize.hpp"

namespace halfeven::kernels {
namespace {

// Eight quotients rounded to integers, each by comparing x with the tie that it may be, which double holds exactly.
__m256i round_quotients(__m256 floats, __m512d scale, bool negative) {
  const __m512d x = _mm512_cvtps_pd(floats);
  __m512d t = _mm512_div_pd(x, scale);
  t = _mm512_min_pd(_mm512_max_pd(t, _mm512_set1_pd(-1e6)), _mm512_set1_pd(1e6));
  const __m512d nearest = _mm512_roundscale_pd(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512d off = _mm512_abs_pd(_mm512_sub_pd(t, nearest));
  const __mmask8 close = _mm512_cmp_pd_mask(off, _mm512_set1_pd(0.5 - 0x1p-32), _CMP_GT_OQ) &
                         _mm512_cmp_pd_mask(_mm512_abs_pd(t), _mm512_set1_pd(1e5), _CMP_LT_OQ);
  const __m512d below = _mm512_roundscale_pd(t, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  const __m512d middle = _mm512_add_pd(below, _mm512_set1_pd(0.5));
  const __m512d tie = _mm512_mul_pd(middle, scale);
  const __mmask8 larger = _mm512_cmp_pd_mask(x, tie, _CMP_GT_OQ);
  const __mmask8 less = _mm512_cmp_pd_mask(x, tie, _CMP_LT_OQ);
  __m512d r = _mm512_roundscale_pd(middle, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);  // a tie: the even one
  r = _mm512_mask_add_pd(r, negative ? less : larger, below, _mm512_set1_pd(1.0));
  r = _mm512_mask_mov_pd(r, negative ? larger : less, below);
  return _mm512_cvtpd_epi32(_mm512_mask_mov_pd(nearest, close, r));
}

}  // namespace

std::size_t quantize_avx512(const QuantizeFloats& q, const float* in, std::uint8_t* out, std::size_t first,
                            std::size_t last) {
  const __m512 scale = _mm512_set1_ps(q.scale);
  const __m512 lo = _mm512_set1_ps(static_cast<float>(q.lo - q.zero));
  const __m512 hi = _mm512_set1_ps(static_cast<float>(q.hi - q.zero));
  // A float quotient of at most 2^9 errs by half an ulp, 2^-16; closer to a tie the portable code decides.
  const __m512 tie = _mm512_set1_ps(0.5F - 0x1p-14F);
  const __m512i zero = _mm512_set1_epi32(q.zero);
  const __m512i least = _mm512_set1_epi32(q.lo - q.zero);
  const __m512i most = _mm512_set1_epi32(q.hi - q.zero);
  const __m512d wide_scale = _mm512_set1_pd(static_cast<double>(q.scale));
  std::size_t i = first;
  for (; i + 16 <= last; i += 16) {
    const __m512 x = _mm512_loadu_ps(in + i);
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    const __m512 t = _mm512_min_ps(_mm512_max_ps(_mm512_div_ps(x, scale), lo), hi);
    const __m512 rest = _mm512_reduce_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __mmask16 near = _mm512_cmp_ps_mask(_mm512_abs_ps(rest), tie, _CMP_GE_OQ);
    if (__builtin_expect(nan != 0, 0)) return quantize_portable(q, in, out, i, i + 16);
    __m512i y = _mm512_cvtps_epi32(t);
    if (near != 0) {
      const __m256i low = round_quotients(_mm512_castps512_ps256(x), wide_scale, q.scale < 0);
      const __m256i high = round_quotients(_mm512_extractf32x8_ps(x, 1), wide_scale, q.scale < 0);
      y = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
      y = _mm512_min_epi32(_mm512_max_epi32(y, least), most);
    }
    y = _mm512_add_epi32(y, zero);
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
