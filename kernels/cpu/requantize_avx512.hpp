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
  bool decided;
  bool fast;  // float32 with a check of every lane
  __m512 float_tie;
  __m512 float_lo;
  __m512 float_hi;
  __m512i wide_zero;

  explicit RequantizeLanes(const Requantize& q)
      : tie(_mm512_set1_pd(0.5 - q.slack)),
        zero(_mm256_set1_epi32(q.zero)),
        lo(_mm512_set1_epi32(q.lo)),
        hi(_mm512_set1_epi32(q.hi)),
        checked(q.slack > 0),
        decided(q.decided),
        fast(q.float_ratio != nullptr),
        float_tie(_mm512_set1_ps(0.5F - q.float_slack)),
        float_lo(_mm512_set1_ps(static_cast<float>(q.lo - q.zero))),
        float_hi(_mm512_set1_ps(static_cast<float>(q.hi - q.zero))),
        wide_zero(_mm512_set1_epi32(q.zero)) {}
};

/// Rounds eight values; sets the bits of those that are too close to a tie.
[[maybe_unused]] static inline __m256i round_lanes(__m512d t, const RequantizeLanes& lanes, unsigned& near) {
  // Beyond what int32 holds the result saturates anyway.
  t = _mm512_min_pd(_mm512_max_pd(t, _mm512_set1_pd(-1e9)), _mm512_set1_pd(1e9));
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  __m512d r = _mm512_roundscale_pd(t, kNearest);
  if (lanes.checked) {
    const __mmask8 open = _mm512_cmp_pd_mask(_mm512_abs_pd(_mm512_sub_pd(t, r)), lanes.tie, _CMP_GE_OQ);
    if (lanes.decided) {  // ties: first to the half that they are, then to even
      r = _mm512_mask_roundscale_pd(r, open, _mm512_roundscale_pd(t, 1 << 4 | kNearest), kNearest);
    } else {
      near = open;
    }
  }
  return _mm256_add_epi32(_mm512_cvtpd_epi32(r), lanes.zero);
}

/// Recomputes the lanes in `near` exactly. Out of the way of the loop.
[[gnu::noinline, gnu::cold, maybe_unused]] static void fix_lanes(const Requantize& q, std::size_t channel,
                                                                 unsigned near, const std::int32_t* a,
                                                                 const std::int32_t* b, std::int32_t* y) {
  while (near != 0) {
    const auto lane = static_cast<std::size_t>(__builtin_ctz(near));
    near &= near - 1;
    y[lane] = requantize(q, q.per_tensor ? 0 : channel + lane, a[lane], b == nullptr ? 0 : b[lane]);
  }
}

/// Sixteen float results of steps: clamped, rounded, the zero point added; sets the bits of lanes too close to a tie.
[[maybe_unused]] static inline __m512i round_floats(__m512 t, const RequantizeLanes& lanes, unsigned& near) {
  t = _mm512_min_ps(_mm512_max_ps(t, lanes.float_lo), lanes.float_hi);
  const __m512 rest = _mm512_reduce_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  near = _mm512_cmp_ps_mask(_mm512_abs_ps(rest), lanes.float_tie, _CMP_GE_OQ);
  return _mm512_add_epi32(_mm512_cvtps_epi32(t), lanes.wide_zero);
}

/// `y` with the lanes in `near` computed again.
[[maybe_unused]] static inline __m512i fixed(const Requantize& q, std::size_t channel, unsigned near, __m512i a,
                                             __m512i b, bool second, __m512i y) {
  alignas(64) std::int32_t first_terms[16];
  alignas(64) std::int32_t second_terms[16];
  alignas(64) std::int32_t results[16];
  _mm512_store_si512(first_terms, a);
  _mm512_store_si512(second_terms, b);
  _mm512_store_si512(results, y);
  fix_lanes(q, channel, near, first_terms, second ? second_terms : nullptr, results);
  return _mm512_load_si512(results);
}

/// Sixteen results as int32, clamped, of the doubles that low() and high() give; lanes that they leave open are set in
/// `near`.
template <class Low, class High>
[[maybe_unused]] static inline __m512i round_both(const RequantizeLanes& lanes, unsigned& near, const Low& low,
                                                  const High& high) {
  unsigned near_low = 0;
  unsigned near_high = 0;
  const __m256i y0 = round_lanes(low(), lanes, near_low);
  const __m256i y1 = round_lanes(high(), lanes, near_high);
  near = near_low | near_high << 8;
  const __m512i y = _mm512_inserti64x4(_mm512_castsi256_si512(y0), y1, 1);
  return _mm512_min_epi32(_mm512_max_epi32(y, lanes.lo), lanes.hi);
}

/// Sixteen results as int32, clamped, of sums `a` for channels from `channel` on.
[[maybe_unused]] static inline __m512i requantize_lanes(const Requantize& q, const RequantizeLanes& lanes,
                                                        std::size_t channel, __m512i a) {
  unsigned near = 0;
  if (lanes.fast) {
    const __m512i y = round_floats(_mm512_fmadd_ps(_mm512_cvtepi32_ps(a), _mm512_loadu_ps(q.float_ratio + channel),
                                                   _mm512_loadu_ps(q.float_offset + channel)),
                                   lanes, near);
    if (__builtin_expect(near == 0, 1)) return y;
    if (!lanes.decided) return fixed(q, channel, near, a, a, false, y);
  }
  const double* ratio = q.ratio + channel;
  const double* offset = q.offset + channel;
  const __m512i y = round_both(
      lanes, near,
      [&] {
        return _mm512_fmadd_pd(_mm512_cvtepi32_pd(_mm512_castsi512_si256(a)), _mm512_loadu_pd(ratio),
                               _mm512_loadu_pd(offset));
      },
      [&] {
        return _mm512_fmadd_pd(_mm512_cvtepi32_pd(_mm512_extracti64x4_epi64(a, 1)), _mm512_loadu_pd(ratio + 8),
                               _mm512_loadu_pd(offset + 8));
      });
  return __builtin_expect(near != 0, 0) ? fixed(q, channel, near, a, a, false, y) : y;
}

}  // namespace halfeven::kernels
