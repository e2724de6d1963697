#ifdef __AVX512BW__
#include "cpu/conv/finish_avx512.hpp"

#include "cpu/conv/finish.hpp"
#include "cpu/words_avx512.hpp"

namespace halfeven::kernels {
namespace {

__mmask16 mask_of(std::int64_t channels, std::int64_t at) {
  return static_cast<__mmask16>(channels - at >= 16 ? 0xFFFF : (1U << (channels - at)) - 1);
}

// The sums of sixteen channels of a pixel, what zero points of weights take away included.
__m512i sums_of(const FinishArgs& f, std::int64_t m, std::int64_t c) {
  const __m512i a = _mm512_loadu_si512(f.sums + m * f.stride + c);
  if (f.pixel_terms == nullptr) return a;
  const __m512i zeros = _mm512_maskz_loadu_epi32(mask_of(f.channels, c), f.weight_zeros + f.first_channel + c);
  return _mm512_sub_epi32(a, _mm512_mullo_epi32(zeros, _mm512_set1_epi32(f.pixel_terms[m])));
}

}  // namespace

void finish_bytes_avx512(const FinishArgs& f) {
  if (f.low_sums != nullptr) return finish_bytes(f);
  const RequantizeLanes lanes(*f.q);
  for (std::int64_t m = 0; m < f.pixels; ++m) {
    for (std::int64_t c = 0; c < f.channels; c += 16) {
      const __m512i y = requantize_lanes(*f.q, lanes, f.first_channel + static_cast<std::size_t>(c), sums_of(f, m, c));
      _mm_mask_storeu_epi8(f.out[m] + c, mask_of(f.channels, c), _mm512_cvtepi32_epi8(y));
    }
  }
}

void finish_words_avx512(const FinishArgs& f) {
  if (f.pixel_terms != nullptr) return finish_words(f);
  const Requantize& q = *f.q;
  const WordLanes lanes(q);
  const __m512d shift = _mm512_set1_pd(256);
  for (std::int64_t m = 0; m < f.pixels; ++m) {
    for (std::int64_t c = 0; c < f.channels; c += 16) {
      const double* ratio = q.ratio + f.first_channel + c;
      const double* offset = q.offset + f.first_channel + c;
      const __m512i sums = _mm512_loadu_si512(f.sums + m * f.stride + c);
      __m512d a0 = low_doubles(sums);
      __m512d a1 = high_doubles(sums);
      if (f.low_sums != nullptr) {
        const __m512i low = _mm512_loadu_si512(f.low_sums + m * f.stride + c);
        a0 = _mm512_fmadd_pd(a0, shift, low_doubles(low));
        a1 = _mm512_fmadd_pd(a1, shift, high_doubles(low));
      }
      unsigned near = 0;
      const __m512i y =
          round_doubles(_mm512_fmadd_pd(a0, _mm512_loadu_pd(ratio), _mm512_loadu_pd(offset)),
                        _mm512_fmadd_pd(a1, _mm512_loadu_pd(ratio + 8), _mm512_loadu_pd(offset + 8)), lanes, near);
      auto* out = reinterpret_cast<std::uint16_t*>(f.out[m]) + c;
      const __mmask16 mask = mask_of(f.channels, c);
      _mm256_mask_storeu_epi16(out, mask, to_stored_words(y, lanes));
      near &= mask;
      while (__builtin_expect(near != 0, 0)) {
        const int lane = __builtin_ctz(near);
        near &= near - 1;
        out[lane] = static_cast<std::uint16_t>(
            requantize(q, f.first_channel + static_cast<std::size_t>(c + lane), wide_sum(f, m, c + lane)));
      }
    }
  }
}

}  // namespace halfeven::kernels

#else  // another processor: the names stand, the portable code serves
#include "cpu/conv/finish.hpp"
#include "cpu/conv/finish_avx512.hpp"
namespace halfeven::kernels {
void finish_bytes_avx512(const FinishArgs& f) { finish_bytes(f); }
void finish_words_avx512(const FinishArgs& f) { finish_words(f); }
}  // namespace halfeven::kernels
#endif
