// vpmaddwd on operands widened to 16 bits: products and their pair sums are exact, unlike those of vpmaddubsw.
#ifdef __AVX2__
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "cpu/conv/conv.hpp"
#include "cpu/conv/conv_pairs.hpp"
#include "cpu/conv/finish.hpp"
#include "cpu/conv/fixed_avx2.hpp"
#include "cpu/requantize_avx2.hpp"

namespace halfeven::kernels {
namespace {

using FixedRegisters = FixedLanes8;

// Twelve sums, two vectors of weights, a pair of activations, a product: all sixteen registers.
template <std::size_t B>
constexpr std::size_t kPixels = 6;

inline __m256i load(const std::int32_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }

inline void widen(const std::uint8_t* from, std::int64_t bytes, std::int16_t* to) {
  std::int64_t c = 0;
  for (; c + 16 <= bytes; c += 16) {
    const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + c));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + c), _mm256_cvtepu8_epi16(x));
  }
  for (; c < bytes; c += 4) {
    std::int32_t four;
    std::memcpy(&four, from + c, sizeof four);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + c), _mm_cvtepu8_epi16(_mm_cvtsi32_si128(four)));
  }
}

// Sixteen channels after sixteen.
template <std::size_t M, std::size_t B>
[[gnu::always_inline]] inline void add_pieces(const Part& part) {
  for (std::size_t v = 0; v < B; ++v) {
    __m256i sums[M][2];
    unroll<M>([&](auto m) {
      unroll<2>([&](auto half) { sums[m][half] = load(part.from + m * part.from_stride + 16 * v + 8 * half); });
    });
    const std::int16_t* x = part.x;
    for (std::size_t k = 0; k < part.count; ++k) {
      const std::int8_t* w = part.pieces[k].weights + v * 64;
      for (std::int64_t quads = part.pieces[k].quads; quads > 0; --quads, w += 64 * B, x += 4) {
        unroll<2>([&](auto pair) {
          const auto* at = reinterpret_cast<const __m128i*>(w) + 2 * pair;
          const __m256i low = _mm256_cvtepi8_epi16(_mm_load_si128(at));
          const __m256i high = _mm256_cvtepi8_epi16(_mm_load_si128(at + 1));
          unroll<M>([&](auto m) {
            std::int32_t two;
            std::memcpy(&two, x + static_cast<std::int64_t>(m) * kStride + 2 * pair, sizeof two);
            const __m256i both = _mm256_set1_epi32(two);
            __m256i a = _mm256_add_epi32(sums[m][0], _mm256_madd_epi16(both, low));
            __m256i b = _mm256_add_epi32(sums[m][1], _mm256_madd_epi16(both, high));
            // Else the compiler adds both pairs' products first, for which there are no registers.
            asm("" : "+x"(a), "+x"(b));
            sums[m][0] = a;
            sums[m][1] = b;
          });
        });
      }
    }
    unroll<M>([&](auto m) {
      unroll<2>([&](auto half) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(part.to + m * 16 * B + 16 * v + 8 * half), sums[m][half]);
      });
    });
  }
}

// The first `channels` bytes, in pieces that overlap.
[[gnu::always_inline]] inline void store_part(std::uint8_t* to, const std::uint8_t* bytes, std::int64_t channels) {
  const auto both_ends = [&](auto size) {
    constexpr auto kSize = static_cast<std::int64_t>(decltype(size)::value);
    std::memcpy(to, bytes, kSize);
    std::memcpy(to + channels - kSize, bytes + channels - kSize, kSize);
  };
  if (channels >= 32) {
    both_ends(std::integral_constant<int, 32>{});
  } else if (channels >= 16) {
    both_ends(std::integral_constant<int, 16>{});
  } else if (channels >= 8) {
    both_ends(std::integral_constant<int, 8>{});
  } else {
    for (std::int64_t c = 0; c < channels; ++c) to[c] = bytes[c];
  }
}

// Four vectors of words to 32 bytes.
[[gnu::always_inline]] inline __m256i pack(__m256i a, __m256i b, __m256i c, __m256i d, const FixedLanes8& f) {
  const __m256i low = _mm256_blend_epi16(_mm256_srli_epi32(a, 16), b, 0xAA);
  const __m256i high = _mm256_blend_epi16(_mm256_srli_epi32(c, 16), d, 0xAA);
  return limit(_mm256_packus_epi16(low, high), f);
}

// The bytes of a pixel; the order of the channels is interleaved_channel's. Whether a lane is open.
template <std::size_t B>
[[gnu::always_inline]] inline bool store_bytes(const TileArgs& t, const FixedLanes8& f, const std::int32_t* sums,
                                               std::uint8_t* out) {
  const float* ratio = t.fixed->ratio.data() + t.lane;
  const float* offset = t.fixed->offset.data() + t.lane;
  __m256i words[2 * B];
  unroll<2 * B>([&](auto v) { words[v] = to_words(load(sums + 8 * v), ratio + 8 * v, offset + 8 * v, f); });
  __m256i bytes[2];
  if constexpr (B == 4) {
    bytes[0] = pack(words[0], words[2], words[4], words[6], f);
    bytes[1] = pack(words[1], words[3], words[5], words[7], f);
  } else if constexpr (B == 2) {
    // Eight bytes each from channels 0, 16, 8 and 24 on.
    bytes[0] = _mm256_permute4x64_epi64(pack(words[0], words[2], words[1], words[3], f), 0xD8);
  } else {
    const __m256i w = _mm256_packs_epi32(_mm256_srai_epi32(words[0], 16), _mm256_srai_epi32(words[1], 16));
    // Four bytes each from channels 0, 8, 4 and 12 on, the last two in the upper half.
    const __m256i y = limit(_mm256_packus_epi16(w, w), f);
    bytes[0] = _mm256_permutevar8x32_epi32(y, _mm256_setr_epi32(0, 4, 1, 5, 0, 4, 1, 5));
  }
  if (t.channels == 16 * B) {
    if constexpr (B == 1) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm256_castsi256_si128(bytes[0]));
    } else {
      unroll<B / 2>([&](auto k) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 32 * k), bytes[k]); });
    }
  } else {
    alignas(32) std::uint8_t all[64];
    unroll<(B + 1) / 2>([&](auto k) { _mm256_store_si256(reinterpret_cast<__m256i*>(all + 32 * k), bytes[k]); });
    store_part(out, all, t.channels);
  }
  __m256i least = words[0];
  unroll<2 * B - 1>([&](auto v) { least = _mm256_min_epu16(least, words[v + 1]); });
  return any_open(least, f);
}

void finish(const FinishArgs& f) {
  if (f.low_sums != nullptr) return finish_bytes(f);
  std::array<std::int32_t, 64> less;  // what zero points of weights take away
  for (std::int64_t m = 0; m < f.pixels; ++m) {
    auto* out = reinterpret_cast<std::uint8_t*>(f.out[m]);
    const std::int32_t* sums = f.sums + m * f.stride;
    if (f.pixel_terms != nullptr) {
      const std::int32_t* zeros = f.weight_zeros + f.first_channel;
      for (std::int64_t c = 0; c < f.channels; ++c) {
        less[static_cast<std::size_t>(c)] = sums[c] - zeros[c] * f.pixel_terms[m];
      }
      sums = less.data();
    }
    requantize_row_avx2(*f.q, f.first_channel, sums, f.channels, out);
  }
}

#include "cpu/conv/conv_pairs.inc"

}  // namespace

ConvFunctions conv_avx2() {
  ConvFunctions f{pick, most, true, finish, finish_words};
  f.order = order_pairs;
  return f;
}

}  // namespace halfeven::kernels

#else  // another processor: the name stands, the portable code serves
#include "cpu/conv/conv.hpp"
namespace halfeven::kernels {
ConvFunctions conv_avx2() { return conv_portable(); }
}  // namespace halfeven::kernels
#endif
