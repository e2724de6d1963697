// vpmaddwd on pairs of taps, one above the other: sixteen channels of two rows are interleaved as 16-bit numbers.
#ifdef __AVX2__
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "cpu/conv/fixed_avx2.hpp"
#include "cpu/depthwise/depthwise.hpp"
#include "cpu/requantize_avx2.hpp"

namespace halfeven::kernels {
namespace {

// What the outputs of a row need, of sixteen channels or, where there are not so many, of all.
struct Strip {
  const Depthwise* d;
  std::array<const std::uint8_t*, kMostDepthwiseHeight> rows;  // of the taps, at column 0
  std::array<std::int64_t, kMostDepthwiseHeight> steps;        // from column to column; 0 for rows of padding
  std::int64_t pairs;                                          // of rows
  const std::int16_t* weights;
  const std::int32_t* start;
  std::size_t lane;
  std::int64_t channel;
  std::int64_t channels;
  const Requantize* q;
  FixedLanes8 lanes;
  std::uint8_t* out;    // at column 0
  std::int64_t column;  // bytes from one output to the next
};

// Fewer than sixteen bytes, and none beyond.
inline __m128i load_part(const std::uint8_t* p, std::int64_t count) {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  if (count >= 8) {
    std::memcpy(&low, p, 8);
    if (count > 8) {
      std::memcpy(&high, p + count - 8, 8);
      high >>= 8 * (16 - count);
    }
  } else {
    for (std::int64_t i = count - 1; i >= 0; --i) low = low << 8 | p[i];
  }
  return _mm_set_epi64x(static_cast<long long>(high), static_cast<long long>(low));
}

inline void store_part(std::uint8_t* to, __m128i bytes, std::int64_t count) {
  alignas(16) std::uint8_t all[16];
  _mm_store_si128(reinterpret_cast<__m128i*>(all), bytes);
  if (count == 8) {
    std::memcpy(to, all, 8);
  } else {
    std::copy_n(all, count, to);
  }
}

template <bool kWhole>
[[gnu::always_inline]] inline __m256i load(const std::uint8_t* p, std::int64_t channels) {
  return _mm256_cvtepu8_epi16(kWhole ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)) : load_part(p, channels));
}

// The sums of an output in the order of the channels.
inline void in_order(__m256i low, __m256i high, std::int32_t* out) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(out), _mm256_permute2x128_si256(low, high, 0x20));
  _mm256_store_si256(reinterpret_cast<__m256i*>(out + 8), _mm256_permute2x128_si256(low, high, 0x31));
}

// Results that Fixed leaves open.
[[gnu::noinline, gnu::cold]] void settle(const Strip& s, __m256i low, __m256i high, __m256i low_words,
                                         __m256i high_words, std::uint8_t* out) {
  alignas(32) std::int32_t sums[16];
  alignas(32) std::int32_t words[16];
  in_order(low, high, sums);
  in_order(low_words, high_words, words);
  for (std::int64_t c = 0; c < s.channels; ++c) {
    if ((words[c] & s.d->fixed.safe_bits) != 0) continue;
    out[c] = static_cast<std::uint8_t>(requantize(*s.q, static_cast<std::size_t>(s.channel + c), sums[c]));
  }
}

// An output without Fixed.
[[gnu::noinline]] void emit_sums(const Strip& s, __m256i low, __m256i high, std::uint8_t* out) {
  alignas(32) std::int32_t sums[16];
  in_order(low, high, sums);
  if (s.d->raw) {
    std::memcpy(out, sums, static_cast<std::size_t>(s.channels) * sizeof(std::int32_t));
  } else {
    requantize_row_avx2(*s.q, static_cast<std::size_t>(s.channel), sums, s.channels, out);
  }
}

// P outputs side by side, from output column ox on.
template <std::size_t P, bool kWhole>
[[gnu::always_inline]] inline void emit(const Strip& s, const __m256i (&sums)[P][2], std::int64_t ox) {
  std::uint8_t* out = s.out + ox * s.column;
  if (!s.d->use_fixed) {
    unroll<P>([&](auto p) { emit_sums(s, sums[p][0], sums[p][1], out + p * s.column); });
    return;
  }
  const float* ratio = s.d->fixed.ratio.data() + s.lane;
  const float* offset = s.d->fixed.offset.data() + s.lane;
  __m256i words[P][2];
  unroll<P>([&](auto p) {
    unroll<2>([&](auto v) { words[p][v] = to_words(sums[p][v], ratio + 8 * v, offset + 8 * v, s.lanes); });
    const __m256i w = _mm256_packs_epi32(_mm256_srai_epi32(words[p][0], 16), _mm256_srai_epi32(words[p][1], 16));
    const __m256i bytes = limit(_mm256_permute4x64_epi64(_mm256_packus_epi16(w, w), 0xD8), s.lanes);
    if constexpr (kWhole) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + p * s.column), _mm256_castsi256_si128(bytes));
    } else {
      store_part(out + p * s.column, _mm256_castsi256_si128(bytes), s.channels);
    }
  });
  if (!s.lanes.checked) return;
  __m256i least = _mm256_min_epu16(words[0][0], words[0][1]);
  unroll<P - 1>([&](auto p) { least = _mm256_min_epu16(least, _mm256_min_epu16(words[p + 1][0], words[p + 1][1])); });
  if (__builtin_expect(any_open(least, s.lanes), 0)) {
    unroll<P>([&](auto p) { settle(s, sums[p][0], sums[p][1], words[p][0], words[p][1], out + p * s.column); });
  }
}

// Every column of the input is interleaved once. kInside: all columns are.
template <std::int64_t KW, std::int64_t SW, std::size_t P, bool kWhole, bool kInside>
void outputs(const Strip& s, std::int64_t ox) {
  const ConvGeometry& g = s.d->geometry;
  __m256i sums[P][2];
  unroll<2>([&](auto v) {
    const __m256i start = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(s.start + 8 * v));
    unroll<P>([&](auto p) { sums[p][v] = start; });
  });
  const std::int64_t x0 = ox * SW + g.origin_x;
  for (std::int64_t pair = 0; pair < s.pairs; ++pair) {
    const auto k = static_cast<std::size_t>(2 * pair);
    const std::int64_t step0 = s.steps[k];
    const std::int64_t step1 = s.steps[k + 1];
    const std::uint8_t* row0 = s.rows[k] + x0 * step0;
    const std::uint8_t* row1 = s.rows[k + 1] + x0 * step1;
    const std::int16_t* weights = s.weights + pair * KW * 32;
    unroll<(P - 1) * SW + KW>([&](auto i) {
      constexpr std::int64_t at = i;
      __m256i a = _mm256_set1_epi16(g.padding);
      __m256i b = a;
      if (kInside || (x0 + at >= 0 && x0 + at < g.width)) {
        a = load<kWhole>(row0, s.channels);
        b = load<kWhole>(row1, s.channels);
      }
      row0 += step0;
      row1 += step1;
      const __m256i low = _mm256_unpacklo_epi16(a, b);
      const __m256i high = _mm256_unpackhi_epi16(a, b);
      unroll<P>([&](auto p) {
        constexpr std::int64_t kx = at - static_cast<std::int64_t>(p) * SW;
        if constexpr (kx >= 0 && kx < KW) {
          const auto* w = reinterpret_cast<const __m256i*>(weights + kx * 32);
          sums[p][0] = _mm256_add_epi32(sums[p][0], _mm256_madd_epi16(low, _mm256_load_si256(w)));
          sums[p][1] = _mm256_add_epi32(sums[p][1], _mm256_madd_epi16(high, _mm256_load_si256(w + 1)));
        }
      });
    });
  }
  __m256i results[P][2];  // a copy: what has an address does not stay in registers
  unroll<P>([&](auto p) { unroll<2>([&](auto v) { results[p][v] = sums[p][v]; }); });
  emit<P, kWhole>(s, results, ox);
}

// Any width of the kernel, stride and dilation.
template <bool kWhole>
void any_row(const Strip& s) {
  const Depthwise& d = *s.d;
  for (std::int64_t ox = 0; ox < d.geometry.out_width; ++ox) {
    __m256i sums[1][2];
    for (std::size_t v = 0; v < 2; ++v) {
      sums[0][v] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(s.start + 8 * v));
    }
    const auto* w = reinterpret_cast<const __m256i*>(s.weights);
    for (std::int64_t pair = 0; pair < s.pairs; ++pair) {
      const auto k = static_cast<std::size_t>(2 * pair);
      for (std::int64_t kx = 0; kx < d.kernel_w; ++kx, w += 2) {
        const std::int64_t x = ox * d.geometry.stride_w + d.geometry.origin_x + kx * d.dilation_w;
        __m256i a = _mm256_set1_epi16(d.geometry.padding);
        __m256i b = a;
        if (x >= 0 && x < d.geometry.width) {
          a = load<kWhole>(s.rows[k] + x * s.steps[k], s.channels);
          b = load<kWhole>(s.rows[k + 1] + x * s.steps[k + 1], s.channels);
        }
        const __m256i low = _mm256_unpacklo_epi16(a, b);
        const __m256i high = _mm256_unpackhi_epi16(a, b);
        sums[0][0] = _mm256_add_epi32(sums[0][0], _mm256_madd_epi16(low, _mm256_load_si256(w)));
        sums[0][1] = _mm256_add_epi32(sums[0][1], _mm256_madd_epi16(high, _mm256_load_si256(w + 1)));
      }
    }
    emit<1, kWhole>(s, sums, ox);
  }
}

template <std::int64_t KW, std::int64_t SW, std::size_t P, bool kWhole>
void group(const Strip& s, std::int64_t ox) {
  const std::int64_t first = ox * SW + s.d->geometry.origin_x;
  if (first >= 0 && first + static_cast<std::int64_t>(P - 1) * SW + KW <= s.d->geometry.width) {
    outputs<KW, SW, P, kWhole, true>(s, ox);
  } else {
    outputs<KW, SW, P, kWhole, false>(s, ox);
  }
}

template <std::int64_t KW, std::int64_t SW, bool kWhole>
void row(const Strip& s) {
  const std::int64_t width = s.d->geometry.out_width;
  std::int64_t ox = 0;
  for (; ox + 4 <= width; ox += 4) group<KW, SW, 4, kWhole>(s, ox);
  for (; ox + 2 <= width; ox += 2) group<KW, SW, 2, kWhole>(s, ox);
  if (ox < width) group<KW, SW, 1, kWhole>(s, ox);
}

template <bool kWhole>
void one_row(const Strip& s) {
  const Depthwise& d = *s.d;
  const std::int64_t kernel = d.dilation_w == 1 ? d.kernel_w : 0;
  if (kernel == 3 && d.geometry.stride_w == 1) return row<3, 1, kWhole>(s);
  if (kernel == 3 && d.geometry.stride_w == 2) return row<3, 2, kWhole>(s);
  if (kernel == 5 && d.geometry.stride_w == 1) return row<5, 1, kWhole>(s);
  if (kernel == 5 && d.geometry.stride_w == 2) return row<5, 2, kWhole>(s);
  any_row<kWhole>(s);
}

}  // namespace

void depthwise_avx2(const Depthwise& d, const std::uint8_t* in, const Requantize& q, std::uint8_t* out,
                    std::int64_t first, std::int64_t last) {
  const ConvGeometry& g = d.geometry;
  if (d.pairs.empty()) return depthwise_portable(d, in, q, out, first, last);
  const std::int64_t element = d.raw ? 4 : 1;
  const std::int64_t pairs = (d.kernel_h + 1) / 2;
  Strip s{&d,
          {},
          {},
          pairs,
          nullptr,
          nullptr,
          0,
          0,
          std::min<std::int64_t>(16, g.groups),
          &q,
          FixedLanes8(d.fixed),
          nullptr,
          g.out_column * element};
  std::array<const std::uint8_t*, kMostDepthwiseHeight> rows{};
  for (std::int64_t r = first; r < last; ++r) {
    const std::int64_t n = r / g.out_height;
    const std::int64_t oy = r % g.out_height;
    for (std::int64_t k = 0; k < 2 * pairs; ++k) {
      const auto at = static_cast<std::size_t>(k);
      const std::int64_t y = oy * g.stride_h + g.origin_y + k * d.dilation_h;
      const bool inside = k < d.kernel_h && y >= 0 && y < g.height;
      rows[at] = inside ? in + n * g.image_bytes + y * g.row_bytes : nullptr;
      s.steps[at] = inside ? g.column_bytes : 0;
    }
    for (std::int64_t strip = 0; strip * 16 < g.groups; ++strip) {
      s.lane = static_cast<std::size_t>(strip) * 16;
      s.channel = depthwise_pair_channel(g.groups, strip);
      s.weights = reinterpret_cast<const std::int16_t*>(d.pairs.data()) + strip * pairs * d.kernel_w * 32;
      s.start = d.lane_start.data() + s.lane;
      s.out = out + (n * g.out_image + oy * g.out_row + s.channel) * element;
      for (std::size_t k = 0; k < static_cast<std::size_t>(2 * pairs); ++k) {
        s.rows[k] = rows[k] != nullptr ? rows[k] + s.channel : d.padding_row.data();
      }
      s.channels == 16 ? one_row<true>(s) : one_row<false>(s);
    }
  }
}

}  // namespace halfeven::kernels

#else  // another processor: the name stands, the portable code serves
#include "cpu/depthwise/depthwise.hpp"
namespace halfeven::kernels {
void depthwise_avx2(const Depthwise& d, const std::uint8_t* in, const Requantize& q, std::uint8_t* out,
                    std::int64_t first, std::int64_t last) {
  depthwise_portable(d, in, q, out, first, last);
}
}  // namespace halfeven::kernels
#endif
