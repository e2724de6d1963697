#ifdef __AVX2__
#include <immintrin.h>

#include <algorithm>
#include <array>

#include "cpu/normalization/normalization.hpp"

namespace halfeven::kernels {
namespace {

std::int64_t sum_of_lanes(__m256i lanes) {
  alignas(32) std::array<std::uint32_t, 8> each;
  _mm256_store_si256(reinterpret_cast<__m256i*>(each.data()), lanes);
  std::int64_t sum = 0;
  for (const std::uint32_t one : each) sum += one;
  return sum;
}

// Sums of a row's bytes and of their squares.
void row_sums(const std::uint8_t* x, std::int64_t length, std::int64_t& sum, std::int64_t& squares) {
  __m256i s = _mm256_setzero_si256();
  __m256i q = _mm256_setzero_si256();  // 32-bit lanes: rows are short enough
  std::int64_t j = 0;
  for (; j + 32 <= length; j += 32) {
    const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + j));
    s = _mm256_add_epi32(s, _mm256_sad_epu8(v, _mm256_setzero_si256()));
    const __m256i low = _mm256_cvtepu8_epi16(_mm256_castsi256_si128(v));
    const __m256i high = _mm256_cvtepu8_epi16(_mm256_extracti128_si256(v, 1));
    q = _mm256_add_epi32(q, _mm256_add_epi32(_mm256_madd_epi16(low, low), _mm256_madd_epi16(high, high)));
  }
  sum = sum_of_lanes(s);
  squares = sum_of_lanes(q);
  for (; j < length; ++j) {
    sum += x[j];
    squares += static_cast<std::int64_t>(x[j]) * x[j];
  }
}

}  // namespace

void normalization_bytes_avx2(const NormalizationBytes& n, const std::uint8_t* in, std::uint8_t* out,
                              std::int64_t first, std::int64_t last) {
  const NormalizationPlaces& p = n.places;
  const __m256 low = _mm256_set1_ps(static_cast<float>(n.lo - n.zero));
  const __m256 high = _mm256_set1_ps(static_cast<float>(n.hi - n.zero));
  const __m256 tie = _mm256_set1_ps(0.5F - n.float_slack);
  const __m256 sign = _mm256_set1_ps(-0.0F);
  const __m256i zero = _mm256_set1_epi32(n.zero);
  for (std::int64_t r = first; r < last; ++r) {
    const std::uint8_t* x = in + r * p.length;
    std::uint8_t* y = out + r * p.length;
    std::int64_t sum = 0;
    std::int64_t squares = 0;
    row_sums(x, p.length, sum, squares);
    const NormalizationRow row = normalization_row(n, sum, squares);
    const __m256 step = _mm256_set1_ps(static_cast<float>(row.step));
    const __m256 start = _mm256_set1_ps(static_cast<float>(row.start));
    const __m256 factor = _mm256_set1_ps(static_cast<float>(row.factor));
    const std::int64_t base = p.base(r);
    // Pieces that share a parameter, or the whole row.
    const std::int64_t piece = p.run == 1 ? p.length : p.run;
    for (std::int64_t from = 0; from < p.length; from += piece) {
      const std::int64_t k = base + from / p.run;
      const auto one = [&](std::int64_t j) {
        const std::int64_t parameter = p.run == 1 ? k + j : k;
        y[j] = static_cast<std::uint8_t>(normalize_byte(n, row, x[j], parameter));
      };
      __m256 scale = _mm256_mul_ps(factor, _mm256_set1_ps(n.float_scale[k]));
      __m256 bias = _mm256_set1_ps(n.float_bias[k]);
      std::int64_t j = from;
      for (; j + 8 <= from + piece; j += 8) {
        if (p.run == 1) {
          scale = _mm256_mul_ps(factor, _mm256_loadu_ps(n.float_scale + k + j));
          bias = _mm256_loadu_ps(n.float_bias + k + j);
        }
        const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(x + j));
        const __m256 q = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
        const __m256 t = _mm256_fmadd_ps(_mm256_fmsub_ps(step, q, start), scale, bias);
        const __m256 limited = _mm256_min_ps(_mm256_max_ps(t, low), high);
        const __m256 whole = _mm256_round_ps(limited, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        const __m256 rest = _mm256_andnot_ps(sign, _mm256_sub_ps(limited, whole));
        const __m256 safe = _mm256_and_ps(_mm256_cmp_ps(rest, tie, _CMP_LT_OQ), _mm256_cmp_ps(t, t, _CMP_ORD_Q));
        const __m256i result =
            _mm256_and_si256(_mm256_add_epi32(_mm256_cvtps_epi32(whole), zero), _mm256_set1_epi32(0xFF));
        const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(result), _mm256_extracti128_si256(result, 1));
        _mm_storel_epi64(reinterpret_cast<__m128i*>(y + j), _mm_packus_epi16(words, words));
        auto open = ~static_cast<unsigned>(_mm256_movemask_ps(safe)) & 0xFFU;
        for (; __builtin_expect(open != 0, 0); open &= open - 1) one(j + __builtin_ctz(open));
      }
      for (; j < from + piece; ++j) one(j);
    }
  }
}

}  // namespace halfeven::kernels

#else  // another processor: the name stands, the portable code serves
#include "cpu/normalization/normalization.hpp"
namespace halfeven::kernels {
void normalization_bytes_avx2(const NormalizationBytes& n, const std::uint8_t* in, std::uint8_t* out,
                              std::int64_t first, std::int64_t last) {
  normalization_bytes_portable(n, in, out, first, last);
}
}  // namespace halfeven::kernels
#endif
