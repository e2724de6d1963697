#include "cpu/elementwise/binary_words.hpp"
#ifdef __AVX512BW__
#include <immintrin.h>

#include <algorithm>

#include "cpu/words_avx512.hpp"

namespace halfeven::kernels {
namespace {

// n elements of a and b, which lie side by side.
template <bool kProduct>
void row(const WordOperands& in, const Requantize& q, const WordLanes& given, const std::uint16_t* a,
         const std::uint16_t* b, std::uint16_t* out, std::size_t n) {
  const WordLanes lanes = given;  // in registers: what is stored cannot change it
  const __m256i a_flip = _mm256_set1_epi16(static_cast<short>(in.a_flip));
  const __m256i b_flip = _mm256_set1_epi16(static_cast<short>(in.b_flip));
  const __m512i a_zero = _mm512_set1_epi32(in.a_zero);
  const __m512i b_zero = _mm512_set1_epi32(in.b_zero);
  const __m512d ratio = _mm512_set1_pd(q.ratio[0]);
  const __m512d ratio2 = _mm512_set1_pd(q.ratio2);
  const __m512d offset = _mm512_set1_pd(q.offset[0]);
  const auto widen = [](__m256i words, __m256i flip, __m512i zero) {
    return _mm512_sub_epi32(_mm512_cvtepu16_epi32(_mm256_xor_si256(words, flip)), zero);
  };
  const auto combine = [&](__m512d x, __m512d y) {
    // A product of integers below 2^17 is exact in double.
    if constexpr (kProduct) return _mm512_fmadd_pd(_mm512_mul_pd(x, y), ratio, offset);
    return _mm512_fmadd_pd(x, ratio, _mm512_fmadd_pd(y, ratio2, offset));
  };
  for (std::size_t k = 0; k < n; k += 16) {
    const auto some = static_cast<__mmask16>(n - k >= 16 ? 0xFFFF : (1U << (n - k)) - 1);
    const __m512i x = widen(_mm256_maskz_loadu_epi16(some, a + k), a_flip, a_zero);
    const __m512i y = widen(_mm256_maskz_loadu_epi16(some, b + k), b_flip, b_zero);
    unsigned near = 0;
    const __m512i r =
        round_doubles(combine(low_doubles(x), low_doubles(y)), combine(high_doubles(x), high_doubles(y)), lanes, near);
    near &= some;
    if (__builtin_expect(near != 0, 0)) {  // before the result may overwrite an operand
      alignas(32) std::uint16_t words[16];
      _mm256_store_si256(reinterpret_cast<__m256i*>(words), to_stored_words(r, lanes));
      for (; near != 0; near &= near - 1) {
        const auto lane = static_cast<std::size_t>(__builtin_ctz(near));
        words[lane] = binary_word(in, q, a[k + lane], b[k + lane]);
      }
      _mm256_mask_storeu_epi16(out + k, some, _mm256_load_si256(reinterpret_cast<const __m256i*>(words)));
      continue;
    }
    _mm256_mask_storeu_epi16(out + k, some, to_stored_words(r, lanes));
  }
}

}  // namespace

void binary_words_avx512(const WordOperands& in, const Requantize& q, std::uint16_t* out, std::size_t first,
                         std::size_t last) {
  const WordLanes lanes(q);
  const auto run = in.product ? row<true> : row<false>;
  if (in.b_period == 0) return run(in, q, lanes, in.a + first, in.b + first, out + first, last - first);
  if (in.b_period == 1 && in.b_span == SIZE_MAX) {
    std::uint16_t same[256];
    std::fill_n(same, 256, in.b[0]);
    for (std::size_t i = first; i < last; i += 256) {
      run(in, q, lanes, in.a + i, same, out + i, std::min<std::size_t>(256, last - i));
    }
    return;
  }
  for (std::size_t i = first; i < last;) {
    const std::size_t within = i % in.b_period;
    const std::size_t n = std::min(last - i, in.b_period - within);
    run(in, q, lanes, in.a + i, in.b + i / in.b_span * in.b_period + within, out + i, n);
    i += n;
  }
}

}  // namespace halfeven::kernels

#else  // another processor: the name stands, the portable code serves
namespace halfeven::kernels {
void binary_words_avx512(const WordOperands& in, const Requantize& q, std::uint16_t* out, std::size_t first,
                         std::size_t last) {
  binary_words_portable(in, q, out, first, last);
}
}  // namespace halfeven::kernels
#endif
