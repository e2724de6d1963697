#ifdef __AVX512BW__
#include <immintrin.h>

#include <algorithm>

#include "cpu/normalization/normalization.hpp"

namespace halfeven::kernels {
namespace {

// Sums of a row's bytes and of their squares.
void row_sums(const std::uint8_t* x, std::int64_t length, std::int64_t& sum, std::int64_t& squares) {
  __m512i s = _mm512_setzero_si512();
  __m512i q = _mm512_setzero_si512();  // 32-bit lanes: rows are short enough
  for (std::int64_t j = 0; j < length; j += 64) {
    const __mmask64 mask = length - j >= 64 ? ~__mmask64{0} : (__mmask64{1} << (length - j)) - 1;
    const __m512i v = _mm512_maskz_loadu_epi8(mask, x + j);
    s = _mm512_add_epi64(s, _mm512_sad_epu8(v, _mm512_setzero_si512()));
    const __m512i low = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(v));
    const __m512i high = _mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(v, 1));
    q = _mm512_add_epi32(q, _mm512_add_epi32(_mm512_madd_epi16(low, low), _mm512_madd_epi16(high, high)));
  }
  sum = _mm512_reduce_add_epi64(s);
  squares = _mm512_reduce_add_epi64(_mm512_add_epi64(_mm512_cvtepu32_epi64(_mm512_castsi512_si256(q)),
                                                     _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(q, 1))));
}

__attribute__((noinline, cold)) void fix(const NormalizationBytes& n, const NormalizationRow& row, unsigned open,
                                         const std::uint8_t* x, std::uint8_t* y, std::int64_t parameter,
                                         std::int64_t step) {
  for (; open != 0; open &= open - 1) {
    const int lane = __builtin_ctz(open);
    y[lane] = static_cast<std::uint8_t>(normalize_byte(n, row, x[lane], parameter + lane * step));
  }
}

}  // namespace

void normalization_bytes_avx512(const NormalizationBytes& n, const std::uint8_t* in, std::uint8_t* out,
                                std::int64_t first, std::int64_t last) {
  const NormalizationPlaces& p = n.places;
  const __m512 low = _mm512_set1_ps(static_cast<float>(n.lo - n.zero));
  const __m512 high = _mm512_set1_ps(static_cast<float>(n.hi - n.zero));
  const __m512 tie = _mm512_set1_ps(0.5F - n.float_slack);
  const __m512i zero = _mm512_set1_epi32(n.zero);
  for (std::int64_t r = first; r < last; ++r) {
    const std::uint8_t* x = in + r * p.length;
    std::uint8_t* y = out + r * p.length;
    std::int64_t sum = 0;
    std::int64_t squares = 0;
    row_sums(x, p.length, sum, squares);
    const NormalizationRow row = normalization_row(n, sum, squares);
    const __m512 step = _mm512_set1_ps(static_cast<float>(row.step));
    const __m512 start = _mm512_set1_ps(static_cast<float>(row.start));
    const __m512 factor = _mm512_set1_ps(static_cast<float>(row.factor));
    const std::int64_t base = p.base(r);
    // Pieces that share a parameter, or the whole row.
    const std::int64_t piece = p.run == 1 ? p.length : p.run;
    for (std::int64_t from = 0; from < p.length; from += piece) {
      const std::int64_t k = base + from / p.run;
      __m512 scale = _mm512_mul_ps(factor, _mm512_set1_ps(n.float_scale[k]));
      __m512 bias = _mm512_set1_ps(n.float_bias[k]);
      for (std::int64_t j = from; j < from + piece; j += 16) {
        const std::int64_t left = from + piece - j;
        const auto mask = static_cast<__mmask16>(left >= 16 ? 0xFFFF : (1U << left) - 1);
        if (p.run == 1) {
          scale = _mm512_mul_ps(factor, _mm512_loadu_ps(n.float_scale + k + j));
          bias = _mm512_loadu_ps(n.float_bias + k + j);
        }
        const __m512 q = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, x + j)));
        __m512 t = _mm512_fmadd_ps(_mm512_fmsub_ps(step, q, start), scale, bias);
        const __mmask16 number = _mm512_cmp_ps_mask(t, t, _CMP_ORD_Q);
        t = _mm512_min_ps(_mm512_max_ps(t, low), high);
        const __m512 rest = _mm512_reduce_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        const unsigned safe = _mm512_mask_cmp_ps_mask(number, _mm512_abs_ps(rest), tie, _CMP_LT_OQ);
        const __m512i result = _mm512_add_epi32(_mm512_cvtps_epi32(t), zero);
        _mm_mask_storeu_epi8(y + j, mask, _mm512_cvtepi32_epi8(result));
        const unsigned open = mask & ~safe;
        if (__builtin_expect(open != 0, 0)) {
          fix(n, row, open, x + j, y + j, p.run == 1 ? k + j : k, p.run == 1 ? 1 : 0);
        }
      }
    }
  }
}

}  // namespace halfeven::kernels

#else  // another processor: the name stands, the portable code serves
#include "cpu/normalization/normalization.hpp"
namespace halfeven::kernels {
void normalization_bytes_avx512(const NormalizationBytes& n, const std::uint8_t* in, std::uint8_t* out,
                                std::int64_t first, std::int64_t last) {
  normalization_bytes_portable(n, in, out, first, last);
}
}  // namespace halfeven::kernels
#endif
