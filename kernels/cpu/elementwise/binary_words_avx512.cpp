#include "cpu/elementwise/binary_words.hpp"
#ifdef __AVX512BW__
#include <immintrin.h>

#include <algorithm>

#include "cpu/words_avx512.hpp"
#include "cpu/words_fixed_avx512.hpp"

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

// FixedWords of one channel in registers.
struct OneChannel {
  FixedWordLanes lanes;
  __m512i least;
  __m512i most;
  __m512d ratio;
  __m512d offset;

  explicit OneChannel(const FixedWords& f)
      : lanes(f),
        least(_mm512_set1_epi32(f.least[0])),
        most(_mm512_set1_epi32(f.most[0])),
        ratio(_mm512_set1_pd(f.ratio[0])),
        offset(_mm512_set1_pd(f.offset[0])) {}

  [[gnu::always_inline]] __m512i operator()(__m512i sums) const {
    sums = _mm512_min_epi32(_mm512_max_epi32(sums, least), most);
    const __m512d t0 = _mm512_fmadd_pd(low_doubles(sums), ratio, offset);
    const __m512d t1 = _mm512_fmadd_pd(high_doubles(sums), ratio, offset);
    return _mm512_permutex2var_epi32(_mm512_castpd_si512(t0), lanes.even, _mm512_castpd_si512(t1));
  }
};

struct Products {
  OneChannel round;
  __m512i a_zero;
  __m512i b_zero;
  __m512i shift;
  __m512i safe;

  explicit Products(const WordOperands& in)
      : round(*in.fixed),
        a_zero(_mm512_set1_epi32(in.a_zero)),
        b_zero(_mm512_set1_epi32(in.b_zero)),
        shift(_mm512_set1_epi32(in.shift)),
        safe(_mm512_set1_epi32(in.fixed->safe_bits)) {}

  [[gnu::always_inline]] __m512i operator()(__m512i x, __m512i y) const {
    const __m512i product = _mm512_mullo_epi32(_mm512_sub_epi32(x, a_zero), _mm512_sub_epi32(y, b_zero));
    return round(_mm512_add_epi32(product, shift));
  }
};

struct Sums {
  __m512d ratio;
  __m512d ratio2;
  __m512d offset;
  __m512d least;
  __m512d most;
  __m512i even;  // the low halves of sixteen doubles
  __m512i safe;

  explicit Sums(const WordOperands& in)
      : ratio(_mm512_set1_pd(in.fixed_sum->ratio)),
        ratio2(_mm512_set1_pd(in.fixed_sum->ratio2)),
        offset(_mm512_set1_pd(in.fixed_sum->offset)),
        least(_mm512_set1_pd(in.fixed_sum->least)),
        most(_mm512_set1_pd(in.fixed_sum->most)),
        even(_mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0)),
        safe(_mm512_set1_epi32(in.fixed_sum->safe_bits)) {}

  [[gnu::always_inline]] __m512i eight(__m512d x, __m512d y) const {
    const __m512d t = _mm512_fmadd_pd(x, ratio, _mm512_fmadd_pd(y, ratio2, offset));
    return _mm512_castpd_si512(_mm512_min_pd(_mm512_max_pd(t, least), most));
  }
  [[gnu::always_inline]] __m512i operator()(__m512i x, __m512i y) const {
    return _mm512_permutex2var_epi32(eight(low_doubles(x), low_doubles(y)), even,
                                     eight(high_doubles(x), high_doubles(y)));
  }
};

// The same as row, 32 elements at a time: those at the even places and those at the odd ones.
template <class Operator>
void fixed_row(const WordOperands& in, const Requantize& q, const WordLanes&, const std::uint16_t* a,
               const std::uint16_t* b, std::uint16_t* out, std::size_t n) {
  const Operator f(in);
  const __m512i a_flip = _mm512_set1_epi16(static_cast<short>(in.a_flip));
  const __m512i b_flip = _mm512_set1_epi16(static_cast<short>(in.b_flip));
  const __m512i low = _mm512_set1_epi32(0xFFFF);
  for (std::size_t k = 0; k < n; k += 32) {
    const auto some = n - k >= 32 ? 0xFFFFFFFF : (1U << (n - k)) - 1;
    const __m512i x = _mm512_xor_si512(_mm512_maskz_loadu_epi16(some, a + k), a_flip);
    const __m512i y = _mm512_xor_si512(_mm512_maskz_loadu_epi16(some, b + k), b_flip);
    const __m512i even = f(_mm512_and_si512(x, low), _mm512_and_si512(y, low));
    const __m512i odd = f(_mm512_srli_epi32(x, 16), _mm512_srli_epi32(y, 16));
    const __m512i words = pack_fixed_words(even, odd);
    if (__builtin_expect(_mm512_testn_epi32_mask(_mm512_min_epu16(even, odd), f.safe) != 0, 0)) {
      // Before the result may overwrite an operand.
      alignas(64) std::uint16_t results[32];
      _mm512_store_si512(results, words);
      const unsigned open[2] = {_mm512_testn_epi32_mask(even, f.safe), _mm512_testn_epi32_mask(odd, f.safe)};
      for (std::size_t lane = 0; lane < std::min<std::size_t>(32, n - k); ++lane) {
        if (((open[lane % 2] >> (lane / 2)) & 1U) != 0) results[lane] = binary_word(in, q, a[k + lane], b[k + lane]);
      }
      _mm512_mask_storeu_epi16(out + k, some, _mm512_load_si512(results));
      continue;
    }
    _mm512_mask_storeu_epi16(out + k, some, words);
  }
}

using RowFunction = void (*)(const WordOperands&, const Requantize&, const WordLanes&, const std::uint16_t*,
                             const std::uint16_t*, std::uint16_t*, std::size_t);

RowFunction row_function(const WordOperands& in) {
  if (in.fixed != nullptr) return fixed_row<Products>;
  if (in.fixed_sum != nullptr) return fixed_row<Sums>;
  return in.product ? row<true> : row<false>;
}

}  // namespace

void binary_words_avx512(const WordOperands& in, const Requantize& q, std::uint16_t* out, std::size_t first,
                         std::size_t last) {
  const WordLanes lanes(q);
  const RowFunction run = row_function(in);
  if (in.b_period == 0) return run(in, q, lanes, in.a + first, in.b + first, out + first, last - first);
  // Short periods are repeated, so that rows are long.
  std::uint16_t repeated[1024];
  const std::size_t length = std::max<std::size_t>(1, 1024 / in.b_period) * in.b_period;
  for (std::size_t i = first; i < last;) {
    const std::size_t span = i / in.b_span;
    const std::size_t end = in.b_span == SIZE_MAX ? last : std::min(last, (span + 1) * in.b_span);
    const std::uint16_t* b = in.b + span * in.b_period;
    if (length <= 1024) {
      for (std::size_t k = 0; k < length; k += in.b_period) std::copy_n(b, in.b_period, repeated + k);
      b = repeated;
    }
    while (i < end) {
      const std::size_t within = i % in.b_period;
      const std::size_t n = std::min(end - i, length - within);
      run(in, q, lanes, in.a + i, b + within, out + i, n);
      i += n;
    }
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
