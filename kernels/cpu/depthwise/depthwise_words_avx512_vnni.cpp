// vpdpwssd on columns of taps: two rows of 32 channels are interleaved, so that a lane holds two taps of one channel.
#ifdef __AVX512VNNI__
#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "cpu/depthwise/depthwise_words.hpp"
#include "cpu/open_lanes_avx512.hpp"
#include "cpu/unroll.hpp"
#include "cpu/words_fixed_avx512.hpp"

namespace halfeven::kernels {
namespace {

// What the outputs of a strip need: one row of 32 channels, or two of 16.
struct Strip {
  const DepthwiseWords* d;
  const Requantize* q;
  FixedWordLanes lanes;
  __m512i flip;     // of the input
  __m512i padding;  // flipped
  __m512i order;    // the upper words of two vectors of lanes, in the order of the channels
  std::array<const std::uint8_t*, 2 * kMostDepthwiseWordsHeight> rows;  // [taps][output rows], at column 0
  std::array<std::int64_t, 2 * kMostDepthwiseWordsHeight> steps;        // 0 for rows of padding
  const std::int8_t* weights;
  const std::int32_t* start;
  std::size_t lane;
  std::int64_t channel;
  std::int64_t channels;             // that there are
  std::int64_t together;             // 32 or 16
  __mmask32 mask;                    // of the channels of one row
  std::array<std::uint8_t*, 2> out;  // of each output row, column 0; null beyond the last
  std::int64_t column;               // bytes from one output to the next
};

// The words of one tap, of all R output rows, flipped.
template <std::size_t R>
[[gnu::always_inline]] inline __m512i load_tap(const Strip& s, const std::uint8_t* const* rows) {
  if constexpr (R == 1) {
    return _mm512_xor_si512(_mm512_maskz_loadu_epi16(s.mask, rows[0]), s.flip);
  } else {
    const auto m = static_cast<__mmask16>(s.mask);
    const __m512i v = _mm512_castsi256_si512(_mm256_maskz_loadu_epi16(m, rows[0]));
    return _mm512_xor_si512(_mm512_inserti64x4(v, _mm256_maskz_loadu_epi16(m, rows[1]), 1), s.flip);
  }
}

// Lanes that FixedWords leaves open, one by one. Vectors come by value: an address would keep the sums in memory.
[[gnu::noinline, gnu::cold]] void settle(const Strip& s, std::int64_t vector, __m512i sums, __m512i words,
                                         std::int64_t ahead) {
  alignas(64) std::int32_t sum[16];
  _mm512_store_si512(sum, sums);
  for_open_lanes(words, s.lanes.safe, [&](int lane) {
    const std::int64_t at = depthwise_word(vector, lane);
    const std::int64_t c = at % s.together;
    std::uint8_t* out = s.out[static_cast<std::size_t>(at / s.together)];
    if (c >= s.channels || out == nullptr) return;
    const std::size_t k = s.lane + static_cast<std::size_t>(16 * vector + lane);
    const std::int64_t a = (sum[lane] >> s.d->fixed.bits[k]) - s.d->fixed.shift[k];
    reinterpret_cast<std::uint16_t*>(out + ahead)[c] =
        static_cast<std::uint16_t>(requantize(*s.q, static_cast<std::size_t>(s.channel + c), a));
  });
}

// P outputs side by side, the first one `ahead` bytes behind column 0.
template <std::size_t R, std::size_t P>
[[gnu::always_inline]] inline void emit(const Strip& s, const __m512i (&sums)[P][2], std::int64_t ahead) {
  __m512i words[P][2];
  // All before the first is stored: what is stored might change the factors, for all that the compiler knows.
  unroll<2>([&](auto v) {
    unroll<P>([&](auto p) { words[p][v] = to_fixed_words(sums[p][v], s.d->fixed, s.lane + 16 * v, s.lanes); });
  });
  unroll<P>([&](auto p) {
    const __m512i y = _mm512_permutex2var_epi16(words[p][0], s.order, words[p][1]);
    const std::int64_t at = ahead + static_cast<std::int64_t>(p) * s.column;
    if constexpr (R == 1) {
      _mm512_mask_storeu_epi16(s.out[0] + at, s.mask, y);
    } else {
      const auto m = static_cast<__mmask16>(s.mask);
      _mm256_mask_storeu_epi16(s.out[0] + at, m, _mm512_castsi512_si256(y));
      if (s.out[1] != nullptr) _mm256_mask_storeu_epi16(s.out[1] + at, m, _mm512_extracti64x4_epi64(y, 1));
    }
  });
  if (!s.lanes.checked) return;
  __m512i least = _mm512_min_epu16(words[0][0], words[0][1]);
  unroll<P - 1>([&](auto p) { least = _mm512_min_epu16(least, _mm512_min_epu16(words[p + 1][0], words[p + 1][1])); });
  if (__builtin_expect(_mm512_testn_epi32_mask(least, s.lanes.safe) != 0, 0)) {
    unroll<P>([&](auto p) {
      unroll<2>([&](auto v) {
        if (_mm512_testn_epi32_mask(words[p][v], s.lanes.safe) != 0) {
          settle(s, v, sums[p][v], words[p][v], ahead + static_cast<std::int64_t>(p) * s.column);
        }
      });
    });
  }
}

// P outputs side by side, from output column ox on: every column of the input is interleaved once. kInside: all columns
// are.
template <std::size_t KW, std::size_t SW, std::size_t R, std::size_t P, bool kInside>
void outputs(const Strip& s, std::int64_t ox) {
  const DepthwiseWords& d = *s.d;
  __m512i sums[P][2];
  unroll<2>([&](auto v) {
    const __m512i start = _mm512_loadu_si512(s.start + 16 * v);
    unroll<P>([&](auto p) { sums[p][v] = start; });
  });
  const std::int64_t x0 = ox * static_cast<std::int64_t>(SW) + d.geometry.origin_x;
  const std::int64_t width = d.geometry.width;
  const std::int8_t* w = s.weights;
  // Of the last pair of an odd number of rows there is one; its partner's weights are zeros.
  const auto add_pair = [&](std::int64_t pair, auto lone) __attribute__((always_inline)) {
    constexpr std::size_t kRows = lone ? R : 2 * R;
    const auto k = static_cast<std::size_t>(pair) * 2 * R;
    const std::uint8_t* rows[kRows];
    std::int64_t steps[kRows];
    for (std::size_t i = 0; i < kRows; ++i) {
      steps[i] = s.steps[k + i];
      rows[i] = s.rows[k + i] + x0 * steps[i];
    }
    unroll<(P - 1) * SW + KW>([&](auto i) {
      constexpr std::size_t at = i;
      __m512i v[2];
      if (kInside || (x0 + static_cast<std::int64_t>(at) >= 0 && x0 + static_cast<std::int64_t>(at) < width)) {
        const __m512i upper = load_tap<R>(s, rows);
        const __m512i lower = lone ? upper : load_tap<R>(s, rows + kRows - R);
        v[0] = _mm512_unpacklo_epi16(upper, lower);
        v[1] = _mm512_unpackhi_epi16(upper, lower);
      } else {
        v[0] = v[1] = s.padding;
      }
      for (std::size_t n = 0; n < kRows; ++n) rows[n] += steps[n];
      unroll<P>([&](auto p) {
        if constexpr (at >= p * SW && at - p * SW < KW) {
          constexpr std::size_t kx = at - p * SW;
          unroll<2>([&](auto c) {
            sums[p][c] = _mm512_dpwssd_epi32(sums[p][c], v[c], _mm512_load_si512(w + kx * 128 + c * 64));
          });
        }
      });
    });
    w += KW * 128;
  };
  for (std::int64_t pair = 0; pair < d.kernel_h / 2; ++pair) add_pair(pair, std::false_type());
  if (d.kernel_h % 2 != 0) add_pair(d.pairs - 1, std::true_type());
  emit<R, P>(s, sums, ox * s.column);
}

// Any width of the kernel, stride and dilation.
template <std::size_t R>
void any_row(const Strip& s) {
  const DepthwiseWords& d = *s.d;
  for (std::int64_t ox = 0; ox < d.geometry.out_width; ++ox) {
    __m512i sums[1][2];
    for (std::size_t v = 0; v < 2; ++v) sums[0][v] = _mm512_loadu_si512(s.start + 16 * v);
    const std::int64_t x0 = ox * d.geometry.stride_w + d.geometry.origin_x;
    const std::int8_t* w = s.weights;
    for (std::size_t pair = 0; pair < static_cast<std::size_t>(d.pairs); ++pair) {
      for (std::int64_t kx = 0; kx < d.kernel_w; ++kx, w += 128) {
        const std::int64_t x = x0 + kx * d.dilation_w;
        __m512i v[2] = {s.padding, s.padding};
        if (x >= 0 && x < d.geometry.width) {
          const std::uint8_t* rows[2 * R];
          for (std::size_t i = 0; i < 2 * R; ++i) rows[i] = s.rows[pair * 2 * R + i] + x * s.steps[pair * 2 * R + i];
          const __m512i upper = load_tap<R>(s, rows);
          const __m512i lower = load_tap<R>(s, rows + R);
          v[0] = _mm512_unpacklo_epi16(upper, lower);
          v[1] = _mm512_unpackhi_epi16(upper, lower);
        }
        for (std::size_t c = 0; c < 2; ++c) {
          sums[0][c] = _mm512_dpwssd_epi32(sums[0][c], v[c], _mm512_load_si512(w + c * 64));
        }
      }
    }
    emit<R, 1>(s, sums, ox * s.column);
  }
}

template <std::size_t KW, std::size_t SW, std::size_t R, std::size_t P>
void group(const Strip& s, std::int64_t ox) {
  const std::int64_t first = ox * static_cast<std::int64_t>(SW) + s.d->geometry.origin_x;
  if (first >= 0 && first + static_cast<std::int64_t>((P - 1) * SW + KW) <= s.d->geometry.width) {
    outputs<KW, SW, R, P, true>(s, ox);
  } else {
    outputs<KW, SW, R, P, false>(s, ox);
  }
}

template <std::size_t KW, std::size_t SW, std::size_t R>
void row(const Strip& s) {
  const std::int64_t width = s.d->geometry.out_width;
  std::int64_t ox = 0;
  for (; ox + 4 <= width; ox += 4) group<KW, SW, R, 4>(s, ox);
  for (; ox + 2 <= width; ox += 2) group<KW, SW, R, 2>(s, ox);
  if (ox < width) group<KW, SW, R, 1>(s, ox);
}

using RowFunction = void (*)(const Strip& s);

template <std::size_t R>
RowFunction row_function(const DepthwiseWords& d) {
  if (d.dilation_w != 1) return any_row<R>;
  if (d.kernel_w == 3 && d.geometry.stride_w == 1) return row<3, 1, R>;
  if (d.kernel_w == 3 && d.geometry.stride_w == 2) return row<3, 2, R>;
  if (d.kernel_w == 5 && d.geometry.stride_w == 1) return row<5, 1, R>;
  if (d.kernel_w == 5 && d.geometry.stride_w == 2) return row<5, 2, R>;
  return any_row<R>;
}

// `count` output rows of image n, from oy on, of a strip whose channels are set.
void place_rows(Strip& s, const std::uint8_t* in, std::uint8_t* out, std::int64_t n, std::int64_t oy,
                std::int64_t count) {
  const DepthwiseWords& d = *s.d;
  const ConvGeometry& g = d.geometry;
  const std::int64_t rows = 32 / s.together;
  const auto* padding = reinterpret_cast<const std::uint8_t*>(d.padding_row.data());
  for (std::int64_t r = 0; r < rows; ++r) {
    // Rows beyond the last are computed from padding and not stored.
    const bool there = r < count;
    s.out[static_cast<std::size_t>(r)] =
        there ? out + (n * g.out_image + (oy + r) * g.out_row + s.channel) * 2 : nullptr;
    for (std::int64_t k = 0; k < 2 * d.pairs; ++k) {
      const std::int64_t y = (oy + r) * g.stride_h + g.origin_y + k * d.dilation_h;
      const bool inside = there && k < d.kernel_h && y >= 0 && y < g.height;
      const auto at = static_cast<std::size_t>(k * rows + r);
      s.rows[at] = inside ? in + n * g.image_bytes + y * g.row_bytes + s.channel * 2 : padding;
      s.steps[at] = inside ? g.column_bytes : 0;
    }
  }
}

}  // namespace

void depthwise_words_avx512_vnni(const DepthwiseWords& d, const std::uint8_t* in, const Requantize& q,
                                 std::uint8_t* out, std::int64_t first, std::int64_t last) {
  const ConvGeometry& g = d.geometry;
  const auto same = [](int word) { return _mm512_set1_epi16(static_cast<short>(static_cast<std::uint16_t>(word))); };
  alignas(64) std::uint16_t order[32];
  for (std::int64_t v = 0; v < 2; ++v) {
    for (std::int64_t lane = 0; lane < 16; ++lane) {
      order[depthwise_word(v, lane)] = static_cast<std::uint16_t>(32 * v + 2 * lane + 1);
    }
  }
  Strip s{&d,
          &q,
          FixedWordLanes(d.fixed),
          same(g.flip),
          same(g.padding_word ^ g.flip),
          _mm512_load_si512(order),
          {},
          {},
          nullptr,
          nullptr,
          0,
          0,
          0,
          32,
          0,
          {},
          g.out_column * 2};
  for (std::int64_t strip = 0; strip < d.strips; ++strip) {
    s.channel = strip * 32;
    s.lane = static_cast<std::size_t>(s.channel);
    s.channels = std::min<std::int64_t>(32, g.groups - s.channel);
    s.together = depthwise_words_together(s.channels);
    s.mask = s.channels == 32 ? 0xFFFFFFFF : (1U << s.channels) - 1;
    s.weights = d.packed.data() + strip * d.pairs * d.kernel_w * 128;
    s.start = d.start.data() + s.lane;
    const RowFunction function = s.together == 32 ? row_function<1>(d) : row_function<2>(d);
    for (std::int64_t r = first; r < last;) {
      const std::int64_t n = r / g.out_height;
      const std::int64_t oy = r % g.out_height;
      const std::int64_t count = std::min({32 / s.together, last - r, g.out_height - oy});
      place_rows(s, in, out, n, oy, count);
      function(s);
      r += count;
    }
  }
}

}  // namespace halfeven::kernels

#else  // another processor: the name stands, and no plan asks for it
#include <cstdlib>

#include "cpu/depthwise/depthwise_words.hpp"
namespace halfeven::kernels {
void depthwise_words_avx512_vnni(const DepthwiseWords&, const std::uint8_t*, const Requantize&, std::uint8_t*,
                                 std::int64_t, std::int64_t) {
  std::abort();
}
}  // namespace halfeven::kernels
#endif
