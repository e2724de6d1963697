// AVX-512 without VNNI: vpmaddwd on operands widened to 16 bits, exact.
#ifdef __AVX512BW__
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "cpu/conv/conv.hpp"
#include "cpu/conv/conv_pairs.hpp"
#include "cpu/conv/finish_avx512.hpp"
#include "cpu/conv/fixed_avx512.hpp"

namespace halfeven::kernels {
namespace {

using FixedRegisters = FixedLanes;

// 24 sums at most, four vectors of weights, a pair of activations, a product.
template <std::size_t B>
constexpr std::size_t kPixels = B == 4 ? 6 : 8;

inline void widen(const std::uint8_t* from, std::int64_t bytes, std::int16_t* to) {
  std::int64_t c = 0;
  for (; c + 32 <= bytes; c += 32) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + c));
    _mm512_storeu_si512(to + c, _mm512_cvtepu8_epi16(x));
  }
  for (; c < bytes; c += 4) {
    std::int32_t four;
    std::memcpy(&four, from + c, sizeof four);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + c), _mm_cvtepu8_epi16(_mm_cvtsi32_si128(four)));
  }
}

template <std::size_t M, std::size_t B>
[[gnu::always_inline]] inline void add_pieces(const Part& part) {
  __m512i sums[M][B];
  unroll<M>([&](auto m) {
    unroll<B>([&](auto b) { sums[m][b] = _mm512_loadu_si512(part.from + m * part.from_stride + 16 * b); });
  });
  const std::int16_t* x = part.x;
  for (std::size_t k = 0; k < part.count; ++k) {
    const std::int8_t* w = part.pieces[k].weights;
    for (std::int64_t quads = part.pieces[k].quads; quads > 0; --quads, w += 64 * B, x += 4) {
      unroll<2>([&](auto pair) {
        __m512i factors[B];
        unroll<B>([&](auto b) {
          const auto* at = reinterpret_cast<const __m256i*>(w) + 2 * b + pair;
          factors[b] = _mm512_cvtepi8_epi16(_mm256_load_si256(at));
        });
        unroll<M>([&](auto m) {
          std::int32_t two;
          std::memcpy(&two, x + static_cast<std::int64_t>(m) * kStride + 2 * pair, sizeof two);
          const __m512i both = _mm512_set1_epi32(two);
          unroll<B>([&](auto b) {
            __m512i sum = _mm512_add_epi32(sums[m][b], _mm512_madd_epi16(both, factors[b]));
            // Else the compiler adds both pairs' products first, for which there are no registers.
            asm("" : "+v"(sum));
            sums[m][b] = sum;
          });
        });
      });
    }
  }
  unroll<M>([&](auto m) { unroll<B>([&](auto b) { _mm512_storeu_si512(part.to + (m * B + b) * 16, sums[m][b]); }); });
}

// Four vectors of words to 64 bytes.
[[gnu::always_inline]] inline __m512i pack(__m512i a, __m512i b, __m512i c, __m512i d, const FixedLanes& f) {
  constexpr __mmask32 kOdd = 0xAAAAAAAA;
  const __m512i low = _mm512_mask_mov_epi16(_mm512_srli_epi32(a, 16), kOdd, b);
  const __m512i high = _mm512_mask_mov_epi16(_mm512_srli_epi32(c, 16), kOdd, d);
  return _mm512_min_epu8(_mm512_max_epu8(_mm512_packus_epi16(low, high), f.lo), f.hi);
}

// The bytes of a pixel; the order of the channels is interleaved_channel's. Whether a lane is open.
template <std::size_t B>
[[gnu::always_inline]] inline bool store_bytes(const TileArgs& t, const FixedLanes& f, const std::int32_t* sums,
                                               std::uint8_t* out) {
  const float* ratio = t.fixed->ratio.data() + t.lane;
  const float* offset = t.fixed->offset.data() + t.lane;
  __m512i words[B];
  unroll<B>(
      [&](auto b) { words[b] = to_words(_mm512_loadu_si512(sums + 16 * b), ratio + 16 * b, offset + 16 * b, f); });
  const std::uint64_t mask = ~std::uint64_t{0} >> (64 - t.channels);
  __m512i least = words[0];
  unroll<B - 1>([&](auto b) { least = _mm512_min_epu16(least, words[b + 1]); });
  if constexpr (B == 4) {
    const __m512i bytes = pack(words[0], words[1], words[2], words[3], f);
    if (t.channels == 64) {
      _mm512_storeu_si512(out, bytes);
    } else {
      _mm512_mask_storeu_epi8(out, mask, bytes);
    }
  } else if constexpr (B == 2) {
    // Eight bytes in each 128 bits.
    const __m512i bytes = pack(words[0], words[1], words[0], words[1], f);
    const __m512i order = _mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0);
    const __m256i pixel = _mm512_castsi512_si256(_mm512_permutexvar_epi64(order, bytes));
    _mm256_mask_storeu_epi8(out, static_cast<__mmask32>(mask), pixel);
  } else {
    const __m512i w = _mm512_max_epi32(_mm512_srai_epi32(words[0], 16), _mm512_setzero_si512());
    const __m128i y = _mm512_cvtusepi32_epi8(w);
    const __m128i lo = _mm512_castsi512_si128(f.lo);
    const __m128i hi = _mm512_castsi512_si128(f.hi);
    _mm_mask_storeu_epi8(out, static_cast<__mmask16>(mask), _mm_min_epu8(_mm_max_epu8(y, lo), hi));
  }
  return _mm512_testn_epi32_mask(least, f.safe) != 0;
}

#include "cpu/conv/conv_pairs.inc"

}  // namespace

ConvFunctions conv_avx512() {
  ConvFunctions f{pick, most, true, finish_bytes_avx512, finish_words_avx512};
  f.order = order_pairs;
  return f;
}

}  // namespace halfeven::kernels

#else  // another processor: the name stands, the portable code serves
#include "cpu/conv/conv.hpp"
namespace halfeven::kernels {
ConvFunctions conv_avx512() { return conv_portable(); }
}  // namespace halfeven::kernels
#endif
