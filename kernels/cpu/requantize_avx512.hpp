// Requantisation of sixteen int32 lanes, AVX-512. Only for files compiled for it.
#pragma once

#include <immintrin.h>

#include "common/requantize.hpp"

namespace halfeven::kernels {

/// What one call of a kernel needs in registers.
struct RequantizeLanes {
  __m512d tie;  // 0.5 - slack
  __m256i zero;
  __m512i lo;
  __m512i hi;
  bool checked;

  explicit RequantizeLanes(const Requantize& q)
      : tie(_mm512_set1_pd(0.5 - q.slack)),
        zero(_mm256_set1_epi32(q.zero)),
        lo(_mm512_set1_epi32(q.lo)),
        hi(_mm512_set1_epi32(q.hi)),
        checked(q.slack > 0) {}
};

/// Rounds eight values; sets the bits of those that are too close to a tie.
inline __m256i round_lanes(__m512d t, const RequantizeLanes& lanes, unsigned& near) {
  // Beyond what int32 holds the result saturates anyway.
  t = _mm512_min_pd(_mm512_max_pd(t, _mm512_set1_pd(-1e9)), _mm512_set1_pd(1e9));
  const __m512d r = _mm512_roundscale_pd(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  if (lanes.checked) near = _mm512_cmp_pd_mask(_mm512_abs_pd(_mm512_sub_pd(t, r)), lanes.tie, _CMP_GE_OQ);
  return _mm256_add_epi32(_mm512_cvtpd_epi32(r), lanes.zero);
}

/// Recomputes the lanes in `near` exactly. Out of the way of the loop.
__attribute__((noinline, cold)) inline void fix_lanes(const Requantize& q, std::size_t channel, unsigned near,
                                                      const std::int32_t* a, const std::int32_t* b, std::int32_t* y) {
  while (near != 0) {
    const auto lane = static_cast<std::size_t>(__builtin_ctz(near));
    near &= near - 1;
    y[lane] = requantize(q, channel + lane, a[lane], b == nullptr ? 0 : b[lane]);
  }
}

/// Sixteen results as int32, clamped, of sums `a` for channels from `channel` on.
inline __m512i requantize_lanes(const Requantize& q, const RequantizeLanes& lanes, std::size_t channel, __m512i a,
                                const double* ratio, const double* offset) {
  unsigned near_low = 0;
  unsigned near_high = 0;
  const __m512d low = _mm512_cvtepi32_pd(_mm512_castsi512_si256(a));
  const __m512d high = _mm512_cvtepi32_pd(_mm512_extracti64x4_epi64(a, 1));
  const __m256i y0 =
      round_lanes(_mm512_fmadd_pd(low, _mm512_loadu_pd(ratio), _mm512_loadu_pd(offset)), lanes, near_low);
  const __m256i y1 =
      round_lanes(_mm512_fmadd_pd(high, _mm512_loadu_pd(ratio + 8), _mm512_loadu_pd(offset + 8)), lanes, near_high);
  __m512i y = _mm512_inserti64x4(_mm512_castsi256_si512(y0), y1, 1);
  y = _mm512_min_epi32(_mm512_max_epi32(y, lanes.lo), lanes.hi);
  const unsigned near = near_low | near_high << 8;
  if (__builtin_expect(near != 0, 0)) {
    alignas(64) std::int32_t sums[16];
    alignas(64) std::int32_t results[16];
    _mm512_store_si512(sums, a);
    _mm512_store_si512(results, y);
    fix_lanes(q, channel, near, sums, nullptr, results);
    y = _mm512_load_si512(results);
  }
  return y;
}

}  // namespace halfeven::kernels
