#ifdef __AVX512F__
#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/softmax/softmax.hpp"

namespace halfeven::kernels {
namespace {

// results[j] of values[j] * factor; false where one of them lies too close to a tie.
bool round_chunk(const double* values, std::int64_t count, double factor, double relative, double absolute, double low,
                 double high, const SoftmaxBytes& s, std::int32_t* results) {
  unsigned near = 0;
  const __m512d f = _mm512_set1_pd(factor);
  const __m512d tie = _mm512_set1_pd(0.5 - absolute);
  const __m512d rel = _mm512_set1_pd(relative);
  for (std::int64_t j = 0; j < count; j += 8) {
    const auto mask = static_cast<__mmask8>(count - j >= 8 ? 0xFF : (1U << (count - j)) - 1);
    __m512d t = _mm512_mul_pd(_mm512_maskz_loadu_pd(mask, values + j), f);
    t = _mm512_min_pd(_mm512_max_pd(t, _mm512_set1_pd(low)), _mm512_set1_pd(high));
    const __m512d r = _mm512_roundscale_pd(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m512d bound = _mm512_fnmadd_pd(_mm512_abs_pd(t), rel, tie);
    near |= _mm512_mask_cmp_pd_mask(mask, _mm512_abs_pd(_mm512_sub_pd(t, r)), bound, _CMP_NLT_UQ);
    __m256i y = _mm256_add_epi32(_mm512_cvtpd_epi32(r), _mm256_set1_epi32(s.zero));
    y = _mm256_min_epi32(_mm256_max_epi32(y, _mm256_set1_epi32(s.lo)), _mm256_set1_epi32(s.hi));
    _mm256_store_si256(reinterpret_cast<__m256i*>(results + j), y);
  }
  return near == 0;
}

#include "cpu/softmax/softmax_bytes.inc"

// exp(x) for -745 < x <= 0, off by a relative 2^-48 at most: x = k ln 2 + r, |r| < 0.3467, its series to r^13, whose
// rest is below 2^-57; each step rounds by a relative 2^-53 of terms that fall off quickly.
inline __m512d exp8(__m512d x) {
  const __m512d k = _mm512_roundscale_pd(_mm512_mul_pd(x, _mm512_set1_pd(0x1.71547652b82fep+0)),
                                         _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m512d r = _mm512_fnmadd_pd(k, _mm512_set1_pd(0x1.62e42fefa39efp-1), x);
  r = _mm512_fnmadd_pd(k, _mm512_set1_pd(0x1.abc9e3b39803fp-56), r);
  __m512d p = _mm512_set1_pd(1.0 / 6227020800.0);
  for (const double c : {1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0, 1.0 / 40320.0,
                         1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0}) {
    p = _mm512_fmadd_pd(p, r, _mm512_set1_pd(c));
  }
  return _mm512_scalef_pd(p, k);
}

// A row of neighbours.
void softmax_row(const SoftmaxFloats& s, std::int64_t length, const float* row, double* power, float* to) {
  __m512 most = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
  unsigned nan = 0;
  for (std::int64_t j = 0; j < length; j += 16) {
    const auto mask = static_cast<__mmask16>(length - j >= 16 ? 0xFFFF : (1U << (length - j)) - 1);
    const __m512 v = _mm512_mask_loadu_ps(most, mask, row + j);
    nan |= _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    most = _mm512_max_ps(most, v);
  }
  const auto top = static_cast<double>(_mm512_reduce_max_ps(most));
  if (nan != 0 || std::isinf(top)) {
    for (std::int64_t j = 0; j < length; ++j) to[j] = std::numeric_limits<float>::quiet_NaN();
    return;
  }
  __m512d sums = _mm512_setzero_pd();  // without the powers of 0, which are 1
  int tops = 0;
  for (std::int64_t j = 0; j < length; j += 8) {
    const auto mask = static_cast<__mmask8>(length - j >= 8 ? 0xFF : (1U << (length - j)) - 1);
    const __m512d x = _mm512_sub_pd(_mm512_cvtps_pd(_mm256_maskz_loadu_ps(mask, row + j)), _mm512_set1_pd(top));
    const __mmask8 live = _mm512_mask_cmp_pd_mask(mask, x, _mm512_set1_pd(-700), _CMP_GE_OQ);
    const __m512d e = _mm512_maskz_mov_pd(live, exp8(_mm512_max_pd(x, _mm512_set1_pd(-700))));
    const __mmask8 below = _mm512_mask_cmp_pd_mask(live, x, _mm512_setzero_pd(), _CMP_LT_OQ);
    sums = _mm512_mask_add_pd(sums, below, sums, e);
    tops += __builtin_popcount(static_cast<unsigned>(live) & ~static_cast<unsigned>(below));
    _mm512_mask_storeu_pd(power + j, mask, s.logarithm ? x : e);
  }
  const double rest = _mm512_reduce_add_pd(sums) + (tops - 1);
  const double sum = 1 + rest;
  // As in the portable kernel.
  const double error = 0x1p-42 + static_cast<double>(length + 8) * 0x1p-53;
  const double log = std::log1p(rest);
  for (std::int64_t j = 0; j < length; j += 8) {
    const auto mask = static_cast<__mmask8>(length - j >= 8 ? 0xFF : (1U << (length - j)) - 1);
    const __m512d p = _mm512_maskz_loadu_pd(mask, power + j);
    __m512d t;
    __m512d e;
    if (s.logarithm) {
      t = _mm512_sub_pd(p, _mm512_set1_pd(log));
      e = _mm512_fmadd_pd(_mm512_abs_pd(p), _mm512_set1_pd(0x1p-45), _mm512_set1_pd(log * (error + 0x1p-45)));
      // The bound of an infinite result would be infinite, too.
      e = _mm512_mask_mov_pd(e, _mm512_cmp_pd_mask(p, _mm512_set1_pd(-HUGE_VAL), _CMP_EQ_OQ), _mm512_setzero_pd());
    } else {
      t = _mm512_div_pd(p, _mm512_set1_pd(sum));
      e = _mm512_mul_pd(t, _mm512_set1_pd(2 * error));
    }
    const __m256 y = _mm512_cvtpd_ps(_mm512_sub_pd(t, e));
    unsigned open = mask & ~_mm256_cmp_ps_mask(y, _mm512_cvtpd_ps(_mm512_add_pd(t, e)), _CMP_EQ_OQ);
    _mm256_mask_storeu_ps(to + j, mask, _mm256_add_ps(y, _mm256_setzero_ps()));
    for (; open != 0; open &= open - 1) {
      const std::int64_t at = j + __builtin_ctz(open);
      to[at] = s.exact(s.context, row, 1, at);
    }
  }
}

}  // namespace

void softmax_bytes_avx512(const SoftmaxRows& rows, const SoftmaxBytes& s, const std::uint8_t* in, std::uint8_t* out,
                          std::int64_t first, std::int64_t last) {
  softmax_bytes(rows, s, in, out, first, last);
}

void softmax_floats_avx512(const SoftmaxRows& rows, const SoftmaxFloats& s, const float* in, double* powers, float* out,
                           std::int64_t first, std::int64_t last) {
  if (rows.inner != 1) return softmax_floats_portable(rows, s, in, powers, out, first, last);
  for (std::int64_t r = first; r < last; ++r) {
    softmax_row(s, rows.length, in + r * rows.length, powers + r * rows.length, out + r * rows.length);
  }
}

}  // namespace halfeven::kernels

#else  // another processor: the names stand, the portable code serves
#include "cpu/softmax/softmax.hpp"
namespace halfeven::kernels {
void softmax_bytes_avx512(const SoftmaxRows& rows, const SoftmaxBytes& s, const std::uint8_t* in, std::uint8_t* out,
                          std::int64_t first, std::int64_t last) {
  softmax_bytes_portable(rows, s, in, out, first, last);
}
void softmax_floats_avx512(const SoftmaxRows& rows, const SoftmaxFloats& s, const float* in, double* powers, float* out,
                           std::int64_t first, std::int64_t last) {
  softmax_floats_portable(rows, s, in, powers, out, first, last);
}
}  // namespace halfeven::kernels
#endif
