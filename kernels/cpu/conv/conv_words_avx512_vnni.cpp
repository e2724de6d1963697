// vpdpwssd over tiles of up to 6 pixels x 64 output channels of 16-bit activations; the sums never leave the registers.
// They are exact modulo 2^32, which is all that the plan relies on.
#ifdef __AVX512VNNI__
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "cpu/conv/conv.hpp"
#include "cpu/open_lanes_avx512.hpp"
#include "cpu/unroll.hpp"
#include "cpu/words_fixed_avx512.hpp"

namespace halfeven::kernels {
namespace {

// Lanes that FixedWords leaves open, one by one. Out of the way of the loop.
[[gnu::noinline, gnu::cold]] void settle(const TileArgs& t, std::int64_t vectors, std::int64_t vector, __m512i sums,
                                         __m512i words, std::uint8_t* out) {
  alignas(64) std::int32_t sum[16];
  _mm512_store_si512(sum, sums);
  const FixedWords& f = *t.fixed_words;
  for_open_lanes(words, _mm512_set1_epi32(f.safe_bits), [&](int lane) {
    const std::int64_t c = interleaved_word(vectors, vector, lane);
    if (c >= t.channels) return;
    const std::size_t k = t.lane + static_cast<std::size_t>(16 * vector + lane);
    const std::int64_t a = (sum[lane] >> f.bits[k]) - f.shift[k];
    reinterpret_cast<std::uint16_t*>(out)[c] =
        static_cast<std::uint16_t>(requantize(*t.q, t.first_channel + static_cast<std::size_t>(c), a));
  });
}

[[gnu::always_inline]] inline __mmask32 mask_of(std::int64_t channels) {
  return channels >= 32 ? 0xFFFFFFFF : (1U << channels) - 1;
}

// Four vectors at a time: two pixels of two vectors, or four pixels of one.
template <std::size_t M, std::size_t B>
[[gnu::always_inline]] inline void store_words(const TileArgs& t, const FixedWordLanes& lanes, std::int64_t ahead,
                                               __m512i (&sums)[M][B]) {
  constexpr std::size_t kVectors = B == 1 ? 1 : 2;
  constexpr std::size_t kGroup = 4 / kVectors;
  unroll<B / kVectors>([&](auto pair) {
    constexpr std::size_t b0 = pair * kVectors;
    const __mmask32 mask = mask_of(t.channels - static_cast<std::int64_t>(16 * b0));
    unroll<(M + kGroup - 1) / kGroup>([&](auto group) {
      constexpr std::size_t m0 = group * kGroup;
      __m512i words[kGroup][kVectors];
      unroll<kGroup>([&](auto i) {
        constexpr std::size_t m = m0 + i < M ? m0 + i : M - 1;
        unroll<kVectors>([&](auto v) {
          words[i][v] =
              m0 + i < M ? to_fixed_words(sums[m][b0 + v], *t.fixed_words, t.lane + 16 * (b0 + v), lanes) : words[0][v];
        });
      });
      unroll<kGroup>([&](auto i) {
        if constexpr (m0 + i < M) {
          std::uint8_t* to = t.out[m0 + i] + ahead + 32 * b0;
          if constexpr (kVectors == 2) {
            const __m512i packed = pack_fixed_words(words[i][0], words[i][1]);
            if (mask == 0xFFFFFFFF) {
              _mm512_storeu_si512(to, packed);
            } else {
              _mm512_mask_storeu_epi16(to, mask, packed);
            }
          } else {
            const __m256i packed = _mm512_cvtepi32_epi16(_mm512_srli_epi32(words[i][0], 16));
            _mm256_mask_storeu_epi16(to, static_cast<__mmask16>(mask), packed);
          }
        }
      });
      if (!lanes.checked) return;
      const __m512i least = _mm512_min_epu16(_mm512_min_epu16(words[0][0], words[0][kVectors - 1]),
                                             _mm512_min_epu16(words[kGroup - 1][0], words[kGroup - 1][kVectors - 1]));
      const __m512i middle = kGroup == 4 ? _mm512_min_epu16(words[1][0], words[kGroup - 2][0]) : least;
      if (__builtin_expect(_mm512_testn_epi32_mask(_mm512_min_epu16(least, middle), lanes.safe) != 0, 0)) {
        unroll<kGroup>([&](auto i) {
          if constexpr (m0 + i < M) {
            unroll<kVectors>([&](auto v) {
              if (_mm512_testn_epi32_mask(words[i][v], lanes.safe) != 0) {
                settle(t, B, b0 + v, sums[m0 + i][b0 + v], words[i][v], t.out[m0 + i] + ahead);
              }
            });
          }
        });
      }
    });
  });
}

constexpr std::int64_t kVectorBytes = 32;  // of 16 channels' weights for two input channels
constexpr std::int64_t kAhead = 32 * kVectorBytes;

template <std::size_t M, std::size_t B>
[[gnu::always_inline]] inline void sum_up(const TileArgs& t, std::int64_t ahead, __m512i flip, __m512i (&sums)[M][B]) {
  const std::int64_t bytes = 4 * t.quads;
  const auto tap_bytes = static_cast<std::int64_t>(t.quads * kVectorBytes * B);
  for (std::int64_t k = 0; k < t.taps; ++k) {
    const std::uint8_t* in[M];
    const std::uint8_t* const* from = t.in + k * t.in_step;
    const std::int64_t offset = t.offsets[k] + ahead;
    unroll<M>([&](auto m) { in[m] = from[m] + offset; });
    const std::int8_t* w = t.weights + t.numbers[k] * tap_bytes;
    const auto step = [&](std::int64_t c) __attribute__((always_inline)) {
      __m512i factors[B];
      unroll<B>([&](auto b) {
        const auto* at = reinterpret_cast<const __m256i*>(w + static_cast<std::int64_t>(b) * kVectorBytes);
        factors[b] = _mm512_cvtepi8_epi16(_mm256_load_si256(at));
      });
      // Weights are read once by a small image, and from far away.
      unroll<(B + 1) / 2>([&](auto line) {
        _mm_prefetch(reinterpret_cast<const char*>(w + kAhead * B + static_cast<std::int64_t>(line) * 64), _MM_HINT_T0);
      });
      w += kVectorBytes * B;
      unroll<M>([&](auto m) {
        std::int32_t two;
        std::memcpy(&two, in[m] + c, sizeof two);
        const __m512i x = _mm512_xor_si512(_mm512_set1_epi32(two), flip);
        unroll<B>([&](auto b) { sums[m][b] = _mm512_dpwssd_epi32(sums[m][b], x, factors[b]); });
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

// M pixels, B vectors of 16 channels.
template <std::size_t M, std::size_t B>
void tile(const TileArgs& t) {
  const FixedWordLanes lanes(*t.fixed_words);
  const __m512i flip = _mm512_set1_epi16(static_cast<short>(t.flip));
  for (std::int64_t k = 0; k < t.count; ++k) {
    __m512i sums[M][B];
    unroll<B>([&](auto b) {
      const __m512i start = _mm512_loadu_si512(t.start + 16 * b);
      unroll<M>([&](auto m) { sums[m][b] = start; });
    });
    sum_up<M, B>(t, k * t.in_advance, flip, sums);
    store_words<M, B>(t, lanes, k * t.out_advance, sums);
  }
}

template <std::size_t B>
constexpr std::size_t kPixels = B == 4 ? 6 : 8;

#include "cpu/conv/pick_tile.inc"

}  // namespace

ConvFunctions conv_words_avx512_vnni() { return {pick, most, false, nullptr, nullptr, false}; }

}  // namespace halfeven::kernels

#else  // another processor: the name stands, and no plan asks for it
#include "cpu/conv/conv.hpp"
namespace halfeven::kernels {
ConvFunctions conv_words_avx512_vnni() { return conv_portable(); }
}  // namespace halfeven::kernels
#endif
