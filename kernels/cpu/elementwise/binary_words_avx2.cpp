#include "cpu/elementwise/binary_words.hpp"
#ifdef __AVX2__
#include <immintrin.h>

#include <algorithm>

namespace halfeven::kernels {
namespace {

// What one call needs in registers.
struct Lanes {
  __m256d tie;    // 0.5 - slack
  __m256d magic;  // added to a double below 2^51 it rounds it to an integer, half to even, which the low bits hold
  __m256d least;
  __m256d most;
  __m256i zero;  // with 32768 for int16: results are counted from the least one of the type
  __m128i lo;    // of uint16
  __m128i hi;
  __m128i flip;
  bool clamp;  // doubles may exceed what int32 holds

  explicit Lanes(const Requantize& q)
      : tie(_mm256_set1_pd(q.slack > 0 ? 0.5 - q.slack : 1)),
        magic(_mm256_set1_pd(0x1.8p52)),
        least(_mm256_set1_pd(-0x1p30)),
        most(_mm256_set1_pd(0x1p30)),
        clamp(!q.fits) {
    const std::int32_t bias = q.lo < 0 ? 32768 : 0;
    zero = _mm256_set1_epi32(q.zero + bias);
    lo = _mm_set1_epi16(static_cast<short>(static_cast<std::uint16_t>(q.lo + bias)));
    hi = _mm_set1_epi16(static_cast<short>(static_cast<std::uint16_t>(q.hi + bias)));
    flip = _mm_set1_epi16(static_cast<short>(static_cast<std::uint16_t>(bias)));
  }
};

// Four values rounded, in the low halves of four lanes; sets the bits of those too close to a tie.
inline __m256 round_four(__m256d t, const Lanes& w, unsigned& near) {
  if (w.clamp) t = _mm256_min_pd(_mm256_max_pd(t, w.least), w.most);
  const __m256d u = _mm256_add_pd(t, w.magic);
  const __m256d off = _mm256_andnot_pd(_mm256_set1_pd(-0.0), _mm256_sub_pd(t, _mm256_sub_pd(u, w.magic)));
  near = static_cast<unsigned>(_mm256_movemask_pd(_mm256_cmp_pd(off, w.tie, _CMP_GE_OQ)));
  return _mm256_castpd_ps(u);
}

// n elements of a and b, which lie side by side.
template <bool kProduct>
void row(const WordOperands& in, const Requantize& q, const Lanes& given, const std::uint16_t* a,
         const std::uint16_t* b, std::uint16_t* out, std::size_t n) {
  const Lanes w = given;  // in registers: what is stored cannot change it
  const __m128i a_flip = _mm_set1_epi16(static_cast<short>(in.a_flip));
  const __m128i b_flip = _mm_set1_epi16(static_cast<short>(in.b_flip));
  const __m256i a_zero = _mm256_set1_epi32(in.a_zero);
  const __m256i b_zero = _mm256_set1_epi32(in.b_zero);
  const __m256d ratio = _mm256_set1_pd(q.ratio[0]);
  const __m256d ratio2 = _mm256_set1_pd(q.ratio2);
  const __m256d offset = _mm256_set1_pd(q.offset[0]);
  const auto widen = [](const std::uint16_t* from, __m128i flip, __m256i zero) {
    const __m128i words = _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)), flip);
    return _mm256_sub_epi32(_mm256_cvtepu16_epi32(words), zero);
  };
  const auto combine = [&](__m128i x, __m128i y) {
    const __m256d s = _mm256_cvtepi32_pd(x);
    const __m256d t = _mm256_cvtepi32_pd(y);
    // A product of integers below 2^17 is exact in double.
    if constexpr (kProduct) return _mm256_fmadd_pd(_mm256_mul_pd(s, t), ratio, offset);
    return _mm256_fmadd_pd(s, ratio, _mm256_fmadd_pd(t, ratio2, offset));
  };
  std::size_t k = 0;
  for (; k + 8 <= n; k += 8) {
    const __m256i x = widen(a + k, a_flip, a_zero);
    const __m256i y = widen(b + k, b_flip, b_zero);
    unsigned near = 0;
    unsigned near_high = 0;
    const __m256 low = round_four(combine(_mm256_castsi256_si128(x), _mm256_castsi256_si128(y)), w, near);
    const __m256 high =
        round_four(combine(_mm256_extracti128_si256(x, 1), _mm256_extracti128_si256(y, 1)), w, near_high);
    const __m256i mixed = _mm256_castps_si256(_mm256_shuffle_ps(low, high, 0x88));
    const __m256i r = _mm256_add_epi32(_mm256_permute4x64_epi64(mixed, 0xD8), w.zero);
    const __m128i limited = _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1));
    const __m128i stored = _mm_xor_si128(_mm_min_epu16(_mm_max_epu16(limited, w.lo), w.hi), w.flip);
    near |= near_high << 4;
    if (__builtin_expect(near != 0, 0)) {  // before the result may overwrite an operand
      alignas(16) std::uint16_t words[8];
      _mm_store_si128(reinterpret_cast<__m128i*>(words), stored);
      for (; near != 0; near &= near - 1) {
        const auto lane = static_cast<std::size_t>(__builtin_ctz(near));
        words[lane] = binary_word(in, q, a[k + lane], b[k + lane]);
      }
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + k), _mm_load_si128(reinterpret_cast<const __m128i*>(words)));
      continue;
    }
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + k), stored);
  }
  for (; k < n; ++k) out[k] = binary_word(in, q, a[k], b[k]);
}

}  // namespace

void binary_words_avx2(const WordOperands& in, const Requantize& q, std::uint16_t* out, std::size_t first,
                       std::size_t last) {
  const Lanes lanes(q);
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
void binary_words_avx2(const WordOperands& in, const Requantize& q, std::uint16_t* out, std::size_t first,
                       std::size_t last) {
  binary_words_portable(in, q, out, first, last);
}
}  // namespace halfeven::kernels
#endif
