#ifdef __AVX512F__
#include "cpu/elementwise/binary.hpp"
#include "cpu/elementwise/quarters_avx512.hpp"
#include "cpu/open_lanes_avx512.hpp"
#include "cpu/requantize_avx512.hpp"

namespace halfeven::kernels {
namespace {

__m512i widen(const std::uint8_t* p, __mmask16 lanes, __m512i zero) {
  return _mm512_sub_epi32(_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(lanes, p)), zero);
}

// Sixteen elements at a time; what is left of a row of b is masked.
template <class Combine>
void run(const BinaryOperands& in, const Requantize& q, std::uint8_t* out, std::size_t first, std::size_t last,
         Combine combine) {
  const RequantizeLanes lanes(q);
  const __m512i a_zero = _mm512_set1_epi32(in.a_zero);
  const __m512i b_zero = _mm512_set1_epi32(in.b_zero);
  const auto row = [&](const std::uint8_t* b, std::size_t i, std::size_t n) {
    std::size_t k = 0;
    for (; k + 16 <= n; k += 16) {
      const __m512i y = combine(widen(in.a + i + k, 0xFFFF, a_zero), widen(b + k, 0xFFFF, b_zero), lanes);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i + k), _mm512_cvtepi32_epi8(y));
    }
    if (k == n) return;
    const auto some = static_cast<__mmask16>((1U << (n - k)) - 1);
    const __m512i y = combine(widen(in.a + i + k, some, a_zero), widen(b + k, some, b_zero), lanes);
    _mm_mask_storeu_epi8(out + i + k, some, _mm512_cvtepi32_epi8(y));
  };
  if (in.b_period == 0) return row(in.b + first, first, last - first);
  if (in.b_period == 1 && in.b_span == SIZE_MAX) {
    alignas(64) std::uint8_t same[64];
    for (std::uint8_t& v : same) v = in.b[0];
    for (std::size_t i = first; i < last; i += 64) row(same, i, last - i < 64 ? last - i : 64);
    return;
  }
  for (std::size_t i = first; i < last;) {
    const std::size_t within = i % in.b_period;
    const std::size_t rest = in.b_period - within;
    const std::size_t n = last - i < rest ? last - i : rest;
    row(in.b + i / in.b_span * in.b_period + within, i, n);
    i += n;
  }
}

__m512d low(__m512i v) { return _mm512_cvtepi32_pd(_mm512_castsi512_si256(v)); }
__m512d high(__m512i v) { return _mm512_cvtepi32_pd(_mm512_extracti64x4_epi64(v, 1)); }

// Sixteen results of a * ratio + b * ratio2 + offset, in double.
inline __m512i sum_doubles(const Requantize& q, const RequantizeLanes& lanes, __m512i a, __m512i b, bool second) {
  const __m512d ratio = _mm512_set1_pd(q.ratio[0]);
  const __m512d ratio2 = _mm512_set1_pd(q.ratio2);
  const __m512d offset = _mm512_set1_pd(q.offset[0]);
  const auto sum = [&](__m512d x, __m512d y) {
    return _mm512_fmadd_pd(x, ratio, second ? _mm512_fmadd_pd(y, ratio2, offset) : offset);
  };
  unsigned near = 0;
  const __m512i y = round_both(
      lanes, near, [&] { return sum(low(a), low(b)); }, [&] { return sum(high(a), high(b)); });
  return __builtin_expect(near != 0, 0) ? fixed(q, 0, near, a, b, second, y) : y;
}

// The same for lanes that float32 leaves open. Out of the way of the loop.
[[gnu::noinline]] __m512i decide(const Requantize& q, const RequantizeLanes& lanes, __m512i a, __m512i b, bool second) {
  return sum_doubles(q, lanes, a, b, second);
}

__m512i sum_lanes(const Requantize& q, const RequantizeLanes& lanes, __m512i a, __m512i b, bool second) {
  if (!lanes.fast) return sum_doubles(q, lanes, a, b, second);
  __m512 base = _mm512_set1_ps(q.float_offset[0]);
  if (second) base = _mm512_fmadd_ps(_mm512_cvtepi32_ps(b), _mm512_set1_ps(q.float_ratio2), base);
  unsigned near = 0;
  const __m512i y =
      round_floats(_mm512_fmadd_ps(_mm512_cvtepi32_ps(a), _mm512_set1_ps(q.float_ratio[0]), base), lanes, near);
  if (__builtin_expect(near == 0, 1)) return y;
  return lanes.decided ? decide(q, lanes, a, b, second) : fixed(q, 0, near, a, b, second, y);
}

// Those of 64 elements that FixedSum leaves open. Out of the way of the loop.
[[gnu::noinline, gnu::cold]] void settle(const BinaryOperands& in, const Requantize& q, const __m512i (&words)[4],
                                         __m512i a_bytes, __m512i b_bytes, std::uint8_t* out) {
  alignas(64) std::uint8_t a[64];
  alignas(64) std::uint8_t b[64];
  _mm512_store_si512(a, a_bytes);
  _mm512_store_si512(b, b_bytes);
  for (std::size_t k = 0; k < 4; ++k) {
    for_open_lanes(words[k], _mm512_set1_epi32(in.fixed.safe_bits), [&](int lane) {
      const std::size_t i = 4 * static_cast<std::size_t>(lane) + k;
      out[i] = static_cast<std::uint8_t>(requantize(q, 0, a[i] - in.a_zero, b[i] - in.b_zero));
    });
  }
}

// Elements of [first, last) in whole vectors of 64, in FixedSum's form; returns where it ends.
std::size_t add_fixed(const BinaryOperands& in, const Requantize& q, std::uint8_t* out, std::size_t first,
                      std::size_t last) {
  const __m512 ratio = _mm512_set1_ps(in.fixed.ratio);
  const __m512 ratio2 = _mm512_set1_ps(in.fixed.ratio2);
  const __m512 offset = _mm512_set1_ps(in.fixed.offset);
  const __m512i safe = _mm512_set1_epi32(in.fixed.safe_bits);
  const __m512i lo = _mm512_set1_epi8(static_cast<char>(q.lo));
  const __m512i hi = _mm512_set1_epi8(static_cast<char>(q.hi));
  for (; first + 64 <= last; first += 64) {
    const __m512i a = _mm512_loadu_si512(in.a + first);
    const __m512i b = _mm512_loadu_si512(in.b + first);
    const auto word = [&](__m512i x, __m512i y) __attribute__((always_inline)) {
      const __m512 rest = _mm512_fmadd_ps(_mm512_cvtepi32_ps(y), ratio2, offset);
      return _mm512_cvtps_epi32(_mm512_fmadd_ps(_mm512_cvtepi32_ps(x), ratio, rest));
    };
    const __m512i words[4] = {word(quarter<0>(a), quarter<0>(b)), word(quarter<1>(a), quarter<1>(b)),
                              word(quarter<2>(a), quarter<2>(b)), word(quarter<3>(a), quarter<3>(b))};
    _mm512_storeu_si512(out + first, join_quarters(words, lo, hi));
    const __m512i least = _mm512_min_epu16(_mm512_min_epu16(words[0], words[1]), _mm512_min_epu16(words[2], words[3]));
    if (__builtin_expect(_mm512_testn_epi32_mask(least, safe) != 0, 0)) settle(in, q, words, a, b, out + first);
  }
  return first;
}

}  // namespace

void add_avx512(const BinaryOperands& in, const Requantize& q, std::uint8_t* out, std::size_t first, std::size_t last) {
  if (in.fixed.safe_bits != 0 && in.b_period == 0) first = add_fixed(in, q, out, first, last);
  run(in, q, out, first, last,
      [&](__m512i a, __m512i b, const RequantizeLanes& lanes) { return sum_lanes(q, lanes, a, b, true); });
}

void multiply_avx512(const BinaryOperands& in, const Requantize& q, std::uint8_t* out, std::size_t first,
                     std::size_t last) {
  run(in, q, out, first, last, [&](__m512i a, __m512i b, const RequantizeLanes& lanes) {
    return sum_lanes(q, lanes, _mm512_mullo_epi32(a, b), b, false);
  });
}

}  // namespace halfeven::kernels

#else  // another processor: the name stands, the portable code serves
#include "cpu/elementwise/binary.hpp"
namespace halfeven::kernels {
void add_avx512(const BinaryOperands& in, const Requantize& q, std::uint8_t* out, std::size_t first, std::size_t last) {
  add_portable(in, q, out, first, last);
}
void multiply_avx512(const BinaryOperands& in, const Requantize& q, std::uint8_t* out, std::size_t first,
                     std::size_t last) {
  multiply_portable(in, q, out, first, last);
}
}  // namespace halfeven::kernels
#endif
