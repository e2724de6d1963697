#ifdef __AVX2__
#include <immintrin.h>

#include <cstring>

#include "cpu/elementwise/binary.hpp"

namespace halfeven::kernels {
namespace {

constexpr std::size_t kBlock = 64;

// Elements [first, first + n) with b at b[0 ... n): float32 where every lane is checked, the definition for the rest.
template <bool kProduct>
void block(const BinaryOperands& in, const Requantize& q, const std::uint8_t* b, std::uint8_t* out, std::size_t first,
           std::size_t n) {
  const std::uint8_t* a = in.a + first;
  const __m256i a_zero = _mm256_set1_epi32(in.a_zero);
  const __m256i b_zero = _mm256_set1_epi32(in.b_zero);
  const __m256 ratio = _mm256_set1_ps(q.float_ratio[0]);
  const __m256 ratio2 = _mm256_set1_ps(q.float_ratio2);
  const __m256 offset = _mm256_set1_ps(q.float_offset[0]);
  const __m256 lo = _mm256_set1_ps(static_cast<float>(q.lo - q.zero));
  const __m256 hi = _mm256_set1_ps(static_cast<float>(q.hi - q.zero));
  const __m256 tie = _mm256_set1_ps(0.5F - q.float_slack);
  const __m256 sign = _mm256_set1_ps(-0.0F);
  const __m256i zero = _mm256_set1_epi32(q.zero);
  const auto one = [&](std::int32_t x, std::int32_t y) {
    return static_cast<std::uint8_t>(kProduct ? requantize(q, 0, x * y) : requantize(q, 0, x, y));
  };
  const auto widen = [](const std::uint8_t* p, __m256i less) {
    return _mm256_sub_epi32(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))), less);
  };
  std::size_t k = 0;
  for (; k + 8 <= n; k += 8) {
    const __m256i u = widen(a + k, a_zero);
    const __m256i v = widen(b + k, b_zero);
    __m256 t;
    if constexpr (kProduct) {
      t = _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_mullo_epi32(u, v)), ratio, offset);
    } else {
      t = _mm256_fmadd_ps(_mm256_cvtepi32_ps(u), ratio, _mm256_fmadd_ps(_mm256_cvtepi32_ps(v), ratio2, offset));
    }
    t = _mm256_min_ps(_mm256_max_ps(t, lo), hi);
    const __m256 whole = _mm256_round_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m256 rest = _mm256_andnot_ps(sign, _mm256_sub_ps(t, whole));
    auto open = static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(rest, tie, _CMP_GE_OQ)));
    const __m256i y = _mm256_add_epi32(_mm256_cvtps_epi32(whole), zero);
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1));
    alignas(8) std::uint8_t bytes[8];
    _mm_storel_epi64(reinterpret_cast<__m128i*>(bytes), _mm_packus_epi16(words, words));
    // Before the result may overwrite an operand.
    for (; __builtin_expect(open != 0, 0); open &= open - 1) {
      const auto lane = static_cast<std::size_t>(__builtin_ctz(open));
      bytes[lane] = one(a[k + lane] - in.a_zero, b[k + lane] - in.b_zero);
    }
    std::memcpy(out + first + k, bytes, 8);
  }
  for (; k < n; ++k) out[first + k] = one(a[k] - in.a_zero, b[k] - in.b_zero);
}

template <bool kProduct>
void run(const BinaryOperands& in, const Requantize& q, std::uint8_t* out, std::size_t first, std::size_t last) {
  std::uint8_t same[kBlock];
  const bool scalar = in.b_period == 1 && in.b_span == SIZE_MAX;
  for (std::uint8_t& v : same) v = scalar ? in.b[0] : 0;
  for (std::size_t i = first; i < last;) {
    std::size_t n = last - i < kBlock ? last - i : kBlock;
    const std::uint8_t* b = same;
    if (in.b_period == 0) {
      b = in.b + i;
    } else if (!scalar) {
      const std::size_t within = i % in.b_period;
      n = n < in.b_period - within ? n : in.b_period - within;
      b = in.b + i / in.b_span * in.b_period + within;
    }
    block<kProduct>(in, q, b, out, i, n);
    i += n;
  }
}

// Of every four bytes the one numbered `k`.
template <int k>
[[gnu::always_inline]] inline __m256 quarter(__m256i bytes) {
  const __m256i order = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(k, -1, -1, -1, 4 + k, -1, -1, -1, 8 + k, -1, -1, -1, 12 + k, -1, -1, -1));
  return _mm256_cvtepi32_ps(_mm256_shuffle_epi8(bytes, order));
}

// Those of 32 elements that FixedSum leaves open. Out of the way of the loop.
[[gnu::noinline, gnu::cold]] void settle(const BinaryOperands& in, const Requantize& q, const __m256i (&words)[4],
                                         __m256i a_bytes, __m256i b_bytes, std::uint8_t* out) {
  alignas(32) std::uint8_t a[32];
  alignas(32) std::uint8_t b[32];
  alignas(32) std::int32_t word[8];
  _mm256_store_si256(reinterpret_cast<__m256i*>(a), a_bytes);
  _mm256_store_si256(reinterpret_cast<__m256i*>(b), b_bytes);
  for (std::size_t k = 0; k < 4; ++k) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(word), words[k]);
    for (std::size_t lane = 0; lane < 8; ++lane) {
      if ((word[lane] & in.fixed.safe_bits) != 0) continue;
      const std::size_t i = 4 * lane + k;
      out[i] = static_cast<std::uint8_t>(requantize(q, 0, a[i] - in.a_zero, b[i] - in.b_zero));
    }
  }
}

// Elements of [first, last) in whole vectors of 32, in FixedSum's form; returns where it ends.
std::size_t add_fixed(const BinaryOperands& in, const Requantize& q, std::uint8_t* out, std::size_t first,
                      std::size_t last) {
  const __m256 ratio = _mm256_set1_ps(in.fixed.ratio);
  const __m256 ratio2 = _mm256_set1_ps(in.fixed.ratio2);
  const __m256 offset = _mm256_set1_ps(in.fixed.offset);
  const __m256i safe = _mm256_set1_epi32(in.fixed.safe_bits);
  const __m256i lo = _mm256_set1_epi8(static_cast<char>(q.lo));
  const __m256i hi = _mm256_set1_epi8(static_cast<char>(q.hi));
  const __m256i order =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15));
  for (; first + 32 <= last; first += 32) {
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in.a + first));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in.b + first));
    const auto word = [&](__m256 x, __m256 y) __attribute__((always_inline)) {
      return _mm256_cvtps_epi32(_mm256_fmadd_ps(x, ratio, _mm256_fmadd_ps(y, ratio2, offset)));
    };
    const __m256i words[4] = {word(quarter<0>(a), quarter<0>(b)), word(quarter<1>(a), quarter<1>(b)),
                              word(quarter<2>(a), quarter<2>(b)), word(quarter<3>(a), quarter<3>(b))};
    const __m256i even = _mm256_blend_epi16(_mm256_srli_epi32(words[0], 16), words[2], 0xAA);
    const __m256i odd = _mm256_blend_epi16(_mm256_srli_epi32(words[1], 16), words[3], 0xAA);
    // Each 128 bits hold bytes 0 and 2 of every four, then 1 and 3.
    const __m256i bytes = _mm256_min_epu8(_mm256_max_epu8(_mm256_packus_epi16(even, odd), lo), hi);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + first), _mm256_shuffle_epi8(bytes, order));
    const __m256i least = _mm256_min_epu16(_mm256_min_epu16(words[0], words[1]), _mm256_min_epu16(words[2], words[3]));
    const __m256i open = _mm256_cmpeq_epi32(_mm256_and_si256(least, safe), _mm256_setzero_si256());
    if (__builtin_expect(_mm256_testz_si256(open, open) == 0, 0)) settle(in, q, words, a, b, out + first);
  }
  return first;
}

}  // namespace

void add_avx2(const BinaryOperands& in, const Requantize& q, std::uint8_t* out, std::size_t first, std::size_t last) {
  if (in.fixed.safe_bits != 0 && in.b_period == 0) first = add_fixed(in, q, out, first, last);
  if (q.float_ratio == nullptr) return add_portable(in, q, out, first, last);
  run<false>(in, q, out, first, last);
}

void multiply_avx2(const BinaryOperands& in, const Requantize& q, std::uint8_t* out, std::size_t first,
                   std::size_t last) {
  if (q.float_ratio == nullptr) return multiply_portable(in, q, out, first, last);
  run<true>(in, q, out, first, last);
}

}  // namespace halfeven::kernels

#else  // another processor: the name stands, the portable code serves
#include "cpu/elementwise/binary.hpp"
namespace halfeven::kernels {
void add_avx2(const BinaryOperands& in, const Requantize& q, std::uint8_t* out, std::size_t first, std::size_t last) {
  add_portable(in, q, out, first, last);
}
void multiply_avx2(const BinaryOperands& in, const Requantize& q, std::uint8_t* out, std::size_t first,
                   std::size_t last) {
  multiply_portable(in, q, out, first, last);
}
}  // namespace halfeven::kernels
#endif
