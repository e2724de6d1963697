#ifdef __AVX2__
#include <immintrin.h>

#include "cpu/elementwise/quantize.hpp"

namespace halfeven::kernels {
namespace {

// Four quotients rounded to integers, each by comparing x with the tie that it may be, which double holds exactly.
__m128i round_quotients(__m128 floats, __m256d scale, bool negative) {
  const __m256d sign = _mm256_set1_pd(-0.0);
  const __m256d x = _mm256_cvtps_pd(floats);
  __m256d t = _mm256_div_pd(x, scale);
  t = _mm256_min_pd(_mm256_max_pd(t, _mm256_set1_pd(-1e6)), _mm256_set1_pd(1e6));
  const __m256d nearest = _mm256_round_pd(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m256d off = _mm256_andnot_pd(sign, _mm256_sub_pd(t, nearest));
  const __m256d close = _mm256_and_pd(_mm256_cmp_pd(off, _mm256_set1_pd(0.5 - 0x1p-32), _CMP_GT_OQ),
                                      _mm256_cmp_pd(_mm256_andnot_pd(sign, t), _mm256_set1_pd(1e5), _CMP_LT_OQ));
  const __m256d below = _mm256_round_pd(t, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  const __m256d middle = _mm256_add_pd(below, _mm256_set1_pd(0.5));
  const __m256d tie = _mm256_mul_pd(middle, scale);
  const __m256d larger = _mm256_cmp_pd(x, tie, _CMP_GT_OQ);
  const __m256d less = _mm256_cmp_pd(x, tie, _CMP_LT_OQ);
  __m256d r = _mm256_round_pd(middle, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);  // a tie: the even one
  r = _mm256_blendv_pd(r, _mm256_add_pd(below, _mm256_set1_pd(1.0)), negative ? less : larger);
  r = _mm256_blendv_pd(r, below, negative ? larger : less);
  return _mm256_cvtpd_epi32(_mm256_blendv_pd(nearest, r, close));
}

}  // namespace

std::size_t quantize_avx2(const QuantizeFloats& q, const float* in, std::uint8_t* out, std::size_t first,
                          std::size_t last) {
  const __m256 scale = _mm256_set1_ps(q.scale);
  const __m256 lo = _mm256_set1_ps(static_cast<float>(q.lo - q.zero));
  const __m256 hi = _mm256_set1_ps(static_cast<float>(q.hi - q.zero));
  // A float quotient of at most 2^9 errs by half an ulp, 2^-16; closer to a tie double decides.
  const __m256 tie = _mm256_set1_ps(0.5F - 0x1p-14F);
  const __m256 sign = _mm256_set1_ps(-0.0F);
  const __m256i zero = _mm256_set1_epi32(q.zero);
  const __m256i least = _mm256_set1_epi32(q.lo - q.zero);
  const __m256i most = _mm256_set1_epi32(q.hi - q.zero);
  const __m256d wide_scale = _mm256_set1_pd(static_cast<double>(q.scale));
  std::size_t i = first;
  for (; i + 16 <= last; i += 16) {
    int nan = 0;
    const auto eight = [&](const float* from) {
      const __m256 x = _mm256_loadu_ps(from);
      const __m256 t = _mm256_min_ps(_mm256_max_ps(_mm256_div_ps(x, scale), lo), hi);
      const __m256 whole = _mm256_round_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      const __m256 near = _mm256_cmp_ps(_mm256_andnot_ps(sign, _mm256_sub_ps(t, whole)), tie, _CMP_GE_OQ);
      nan |= _mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
      __m256i y = _mm256_cvtps_epi32(whole);
      if (_mm256_movemask_ps(near) != 0) {
        const __m128i low = round_quotients(_mm256_castps256_ps128(x), wide_scale, q.scale < 0);
        const __m128i high = round_quotients(_mm256_extractf128_ps(x, 1), wide_scale, q.scale < 0);
        y = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
        y = _mm256_min_epi32(_mm256_max_epi32(y, least), most);
      }
      return _mm256_and_si256(_mm256_add_epi32(y, zero), _mm256_set1_epi32(0xFF));
    };
    const __m256i low = eight(in + i);
    const __m256i high = eight(in + i + 8);
    if (__builtin_expect(nan != 0, 0)) return quantize_portable(q, in, out, i, i + 16);
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
