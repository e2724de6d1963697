// vpdpbusd over tiles of up to 6 pixels x 64 output channels; the sums never leave the registers.
#ifdef __AVX512VNNI__
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "cpu/conv/conv.hpp"
#include "cpu/conv/finish_avx512.hpp"
#include "cpu/conv/fixed_avx512.hpp"
#include "cpu/open_lanes_avx512.hpp"

namespace halfeven::kernels {
namespace {

// Lanes that Fixed leaves open, one by one. Out of the way of the loop.
[[gnu::noinline, gnu::cold]] void settle(const TileArgs& t, std::int64_t vectors, std::int64_t vector, __m512i sums,
                                         __m512i words, std::uint8_t* out) {
  alignas(64) std::int32_t sum[16];
  _mm512_store_si512(sum, sums);
  for_open_lanes(words, _mm512_set1_epi32(t.fixed->safe_bits), [&](int lane) {
    const std::int64_t c = interleaved_channel(vectors, vector, lane);
    if (c >= t.channels) return;
    out[c] = static_cast<std::uint8_t>(requantize(*t.q, t.first_channel + static_cast<std::size_t>(c), sum[lane]));
  });
}

// Four vectors of words to 64 bytes; the order of the channels is interleaved_channel's.
[[gnu::always_inline]] inline __m512i pack(__m512i a, __m512i b, __m512i c, __m512i d, const FixedLanes& f) {
  constexpr __mmask32 kOdd = 0xAAAAAAAA;
  const __m512i low = _mm512_mask_mov_epi16(_mm512_srli_epi32(a, 16), kOdd, b);
  const __m512i high = _mm512_mask_mov_epi16(_mm512_srli_epi32(c, 16), kOdd, d);
  return _mm512_min_epu8(_mm512_max_epu8(_mm512_packus_epi16(low, high), f.lo), f.hi);
}

template <std::size_t M, std::size_t B>
[[gnu::always_inline]] inline void store_bytes(const TileArgs& t, const FixedLanes& f, std::int64_t ahead,
                                               __m512i (&sums)[M][B]) {
  const Fixed& fixed = *t.fixed;
  const float* ratio = fixed.ratio.data() + t.lane;
  const float* offset = fixed.offset.data() + t.lane;
  // Pixels that are packed together: 4 vectors in all.
  constexpr std::size_t kGroup = 4 / B;
  unroll<(M + kGroup - 1) / kGroup>([&](auto group) {
    constexpr std::size_t m0 = group * kGroup;
    __m512i words[4];
    unroll<kGroup>([&](auto i) {
      constexpr std::size_t m = m0 + i < M ? m0 + i : M - 1;
      unroll<B>([&](auto b) { words[i * B + b] = to_words(sums[m][b], ratio + 16 * b, offset + 16 * b, f); });
    });
    if constexpr (B == 4) {
      const __m512i bytes = pack(words[0], words[1], words[2], words[3], f);
      if (t.channels >= 64) {
        _mm512_storeu_si512((t.out[m0] + ahead), bytes);
      } else {
        _mm512_mask_storeu_epi8((t.out[m0] + ahead), (std::uint64_t{1} << t.channels) - 1, bytes);
      }
    } else if constexpr (B == 2) {
      // Each 128 bits hold 8 bytes of either pixel.
      const __m512i order = _mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0);
      const __m512i bytes = _mm512_permutexvar_epi64(order, pack(words[0], words[1], words[2], words[3], f));
      const auto mask = static_cast<__mmask32>(t.channels >= 32 ? 0xFFFFFFFF : (1U << t.channels) - 1);
      unroll<2>([&](auto i) {
        if constexpr (m0 + i < M) {
          const __m256i pixel = _mm512_extracti64x4_epi64(bytes, i);
          if (mask == 0xFFFFFFFF) {
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(t.out[m0 + i] + ahead), pixel);
          } else {
            _mm256_mask_storeu_epi8(t.out[m0 + i] + ahead, mask, pixel);
          }
        }
      });
    } else {
      const auto mask = static_cast<__mmask16>(t.channels >= 16 ? 0xFFFF : (1U << t.channels) - 1);
      const __m512i low = _mm512_packs_epi32(_mm512_srai_epi32(words[0], 16), _mm512_srai_epi32(words[1], 16));
      const __m512i high = _mm512_packs_epi32(_mm512_srai_epi32(words[2], 16), _mm512_srai_epi32(words[3], 16));
      // Each 128 bits hold 4 bytes of every pixel.
      const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
      const __m512i bytes =
          _mm512_permutexvar_epi32(order, _mm512_min_epu8(_mm512_max_epu8(_mm512_packus_epi16(low, high), f.lo), f.hi));
      unroll<4>([&](auto i) {
        if constexpr (m0 + i < M) {
          const __m128i pixel = _mm512_extracti32x4_epi32(bytes, i);
          if (mask == 0xFFFF) {
            _mm_storeu_si128(reinterpret_cast<__m128i*>(t.out[m0 + i] + ahead), pixel);
          } else {
            _mm_mask_storeu_epi8(t.out[m0 + i] + ahead, mask, pixel);
          }
        }
      });
    }
    if (!f.checked) return;
    const __m512i least = _mm512_min_epu16(_mm512_min_epu16(words[0], words[1]), _mm512_min_epu16(words[2], words[3]));
    if (__builtin_expect(_mm512_testn_epi32_mask(least, f.safe) != 0, 0)) {
      unroll<kGroup>([&](auto i) {
        if constexpr (m0 + i < M) {
          unroll<B>([&](auto b) {
            if (_mm512_testn_epi32_mask(words[i * B + b], f.safe) != 0) {
              settle(t, B, b, sums[m0 + i][b], words[i * B + b], (t.out[m0 + i] + ahead));
            }
          });
        }
      });
    }
  });
}

constexpr std::int64_t kAhead = 16 * 64;  // bytes of a vector's weights

// M pixels, B vectors of 16 channels.
template <std::size_t M, std::size_t B>
[[gnu::always_inline]] inline void begin(const TileArgs& t, __m512i (&sums)[M][B]) {
  unroll<B>([&](auto b) {
    const __m512i start = _mm512_loadu_si512(t.start + 16 * b);
    unroll<M>([&](auto m) { sums[m][b] = start; });
  });
}

// M pixels, B vectors of 16 channels.
template <std::size_t M, std::size_t B>
[[gnu::always_inline]] inline void sum_up(const TileArgs& t, std::int64_t ahead, __m512i (&sums)[M][B]) {
  const std::int64_t bytes = 4 * t.quads;
  const auto tap_bytes = static_cast<std::int64_t>(bytes * 16 * B);
  for (std::int64_t k = 0; k < t.taps; ++k) {
    const std::uint8_t* in[M];
    const std::uint8_t* const* from = t.in + k * t.in_step;
    const std::int64_t offset = t.offsets[k] + ahead;
    unroll<M>([&](auto m) { in[m] = from[m] + offset; });
    const std::int8_t* w = t.weights + t.numbers[k] * tap_bytes;
    const auto step = [&](std::int64_t c) __attribute__((always_inline)) {
      __m512i factors[B];
      unroll<B>([&](auto b) { factors[b] = _mm512_load_si512(w + static_cast<std::int64_t>(b) * 64); });
      // Weights are read once by a small image, and from far away.
      unroll<B>([&](auto b) {
        _mm_prefetch(reinterpret_cast<const char*>(w + kAhead * B + static_cast<std::int64_t>(b) * 64), _MM_HINT_T0);
      });
      w += 64 * B;
      unroll<M>([&](auto m) {
        std::int32_t four;
        std::memcpy(&four, in[m] + c, sizeof four);
        const __m512i x = _mm512_set1_epi32(four);
        unroll<B>([&](auto b) { sums[m][b] = _mm512_dpbusd_epi32(sums[m][b], x, factors[b]); });
      });
    };
    std::int64_t c = 0;
    for (; c + 8 <= bytes; c += 8) {
      step(c);
      step(c + 4);
    }
    if (c < bytes) step(c);
  }
}

template <std::size_t M, std::size_t B>
void tile(const TileArgs& t) {
  if (t.raw != nullptr) {
    __m512i sums[M][B];
    begin<M, B>(t, sums);
    // Both planes pass through one loop, so that its code stands here once.
    for (std::int64_t plane = 0;; plane = t.plane) {
      sum_up<M, B>(t, plane, sums);
      if (plane == t.plane) break;
      unroll<M>([&](auto m) { unroll<B>([&](auto b) { sums[m][b] = _mm512_slli_epi32(sums[m][b], 8); }); });
    }
    unroll<M>([&](auto m) { unroll<B>([&](auto b) { _mm512_storeu_si512(t.raw + (m * B + b) * 16, sums[m][b]); }); });
    return;
  }
  const FixedLanes f(*t.fixed);
  for (std::int64_t k = 0; k < t.count; ++k) {
    __m512i sums[M][B];
    begin<M, B>(t, sums);
    sum_up<M, B>(t, k * t.in_advance, sums);
    store_bytes<M, B>(t, f, k * t.out_advance, sums);
  }
}

// Up to so many pixels: sums, weights and a broadcast fill the 32 registers. (Weights as memory operands allow 7 pixels
// of 4 vectors, but then loads, not products, set the pace: measured slower.)
template <std::size_t B>
constexpr std::size_t kPixels = B == 4 ? 6 : 8;

#include "cpu/conv/pick_tile.inc"

}  // namespace

ConvFunctions conv_avx512_vnni() { return {pick, most, true, finish_bytes_avx512, finish_words_avx512, true}; }

}  // namespace halfeven::kernels

#else  // another processor: the name stands, the portable code serves
#include "cpu/conv/conv.hpp"
namespace halfeven::kernels {
ConvFunctions conv_avx512_vnni() { return conv_portable(); }
}  // namespace halfeven::kernels
#endif
