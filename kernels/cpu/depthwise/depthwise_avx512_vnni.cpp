// vpdpbusd on columns of taps: four rows of 64 channels are interleaved, so that a lane holds four taps of one channel.
#ifdef __AVX512VNNI__
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "cpu/conv/finish_avx512.hpp"
#include "cpu/conv/fixed_avx512.hpp"
#include "cpu/depthwise/depthwise.hpp"
#include "cpu/open_lanes_avx512.hpp"

namespace halfeven::kernels {
namespace {

constexpr std::int64_t kMostQuads = kMostDepthwiseHeight / 4;  // of rows

// What the outputs of a strip need: one row of 64 channels, two of 32 or four of 16.
struct Strip {
  const Depthwise* d;
  std::array<const std::uint8_t*, 16 * kMostQuads> rows;  // [taps][output rows], at column 0
  std::array<std::int64_t, 16 * kMostQuads> steps;        // 0 for rows of padding
  const std::int8_t* weights;
  const std::int32_t* start;
  std::size_t lane;
  std::int64_t channel;
  std::int64_t channels;  // that there are
  std::int64_t together;  // 64, 32 or 16
  __mmask64 mask;         // of the channels of one row
  const Requantize* q;
  FixedLanes lanes;
  std::array<std::uint8_t*, 4> out;  // of each output row, column 0; null beyond the last
  std::int64_t column;               // bytes from one output to the next
};

// Lane by lane the four taps of a channel.
[[gnu::always_inline]] inline void interleave(__m512i r0, __m512i r1, __m512i r2, __m512i r3, __m512i (&v)[4]) {
  const __m512i ab0 = _mm512_unpacklo_epi8(r0, r1);
  const __m512i ab1 = _mm512_unpackhi_epi8(r0, r1);
  const __m512i cd0 = _mm512_unpacklo_epi8(r2, r3);
  const __m512i cd1 = _mm512_unpackhi_epi8(r2, r3);
  v[0] = _mm512_unpacklo_epi16(ab0, cd0);
  v[1] = _mm512_unpackhi_epi16(ab0, cd0);
  v[2] = _mm512_unpacklo_epi16(ab1, cd1);
  v[3] = _mm512_unpackhi_epi16(ab1, cd1);
}

// The bytes of one tap at a column, of all R output rows.
template <std::int64_t R>
[[gnu::always_inline]] inline __m512i load_tap(const std::uint8_t* const* rows, const std::int64_t* steps,
                                               std::int64_t x, __mmask64 mask) {
  if constexpr (R == 1) {
    return _mm512_maskz_loadu_epi8(mask, rows[0] + x * steps[0]);
  } else if constexpr (R == 2) {
    const auto m = static_cast<__mmask32>(mask);
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_maskz_loadu_epi8(m, rows[0] + x * steps[0])),
                              _mm256_maskz_loadu_epi8(m, rows[1] + x * steps[1]), 1);
  } else {
    const auto m = static_cast<__mmask16>(mask);
    __m512i v = _mm512_castsi128_si512(_mm_maskz_loadu_epi8(m, rows[0] + x * steps[0]));
    v = _mm512_inserti32x4(v, _mm_maskz_loadu_epi8(m, rows[1] + x * steps[1]), 1);
    v = _mm512_inserti32x4(v, _mm_maskz_loadu_epi8(m, rows[2] + x * steps[2]), 2);
    return _mm512_inserti32x4(v, _mm_maskz_loadu_epi8(m, rows[3] + x * steps[3]), 3);
  }
}

// What the taps outside the image read.
[[gnu::always_inline]] inline __m512i padding_of(const Depthwise& d) {
  return _mm512_set1_epi8(static_cast<char>(d.geometry.padding));
}

// Four taps of a column of the input, which may be outside.
template <std::int64_t R>
[[gnu::always_inline]] inline void column(const Strip& s, std::int64_t quad, std::int64_t x, __m512i (&v)[4]) {
  if (x < 0 || x >= s.d->geometry.width) {
    for (__m512i& one : v) one = padding_of(*s.d);
    return;
  }
  const auto load = [&](std::int64_t i) {
    const auto k = static_cast<std::size_t>((quad * 4 + i) * R);
    return load_tap<R>(s.rows.data() + k, s.steps.data() + k, x, s.mask);
  };
  interleave(load(0), load(1), load(2), load(3), v);
}

// Lanes of a vector that Fixed leaves open. Vectors come by value: an address would keep the sums in memory.
[[gnu::noinline, gnu::cold]] void settle_strip(const Strip& s, std::int64_t vector, __m512i sums, __m512i words,
                                               std::int64_t ahead) {
  alignas(64) std::int32_t sum[16];
  _mm512_store_si512(sum, sums);
  for_open_lanes(words, s.lanes.safe, [&](int lane) {
    const std::int64_t c = depthwise_byte(vector, lane) % s.together;
    std::uint8_t* out = s.out[static_cast<std::size_t>(depthwise_byte(vector, lane) / s.together)];
    if (c >= s.channels || out == nullptr) return;
    out[ahead + c] = static_cast<std::uint8_t>(requantize(*s.q, static_cast<std::size_t>(s.channel + c), sum[lane]));
  });
}

// From the order of depthwise_byte to that of the bytes: blocks of four lanes change places.
inline void in_byte_order(__m512i v0, __m512i v1, __m512i v2, __m512i v3, std::int32_t* out) {
  const __m512i a = _mm512_shuffle_i32x4(v0, v1, 0x44);
  const __m512i b = _mm512_shuffle_i32x4(v2, v3, 0x44);
  const __m512i c = _mm512_shuffle_i32x4(v0, v1, 0xEE);
  const __m512i d = _mm512_shuffle_i32x4(v2, v3, 0xEE);
  _mm512_store_si512(out, _mm512_shuffle_i32x4(a, b, 0x88));
  _mm512_store_si512(out + 16, _mm512_shuffle_i32x4(a, b, 0xDD));
  _mm512_store_si512(out + 32, _mm512_shuffle_i32x4(c, d, 0x88));
  _mm512_store_si512(out + 48, _mm512_shuffle_i32x4(c, d, 0xDD));
}

[[gnu::noinline]] void emit_checked(const Strip& s, __m512i v0, __m512i v1, __m512i v2, __m512i v3,
                                    std::int64_t ahead) {
  alignas(64) std::int32_t natural[64];
  in_byte_order(v0, v1, v2, v3, natural);
  for (std::int64_t r = 0; r < 64 / s.together; ++r) {
    std::uint8_t* out = s.out[static_cast<std::size_t>(r)];
    if (out == nullptr) continue;
    const std::int32_t* sums = natural + r * s.together;
    if (s.d->raw) {
      std::memcpy(out + ahead, sums, static_cast<std::size_t>(s.channels) * sizeof(std::int32_t));
      continue;
    }
    FinishArgs f;
    auto* to = reinterpret_cast<std::byte*>(out + ahead);
    f.sums = sums;
    f.pixels = 1;
    f.stride = s.together;
    f.channels = s.channels;
    f.first_channel = static_cast<std::size_t>(s.channel);
    f.out = &to;
    f.q = s.q;
    finish_bytes_avx512(f);
  }
}

template <std::int64_t R>
[[gnu::always_inline]] inline void store(const Strip& s, __m512i bytes, std::int64_t ahead) {
  if constexpr (R == 1) {
    if (s.mask == ~std::uint64_t{0}) {
      _mm512_storeu_si512(s.out[0] + ahead, bytes);
    } else {
      _mm512_mask_storeu_epi8(s.out[0] + ahead, s.mask, bytes);
    }
  } else if constexpr (R == 2) {
    const auto m = static_cast<__mmask32>(s.mask);
    _mm256_mask_storeu_epi8(s.out[0] + ahead, m, _mm512_castsi512_si256(bytes));
    if (s.out[1] != nullptr) _mm256_mask_storeu_epi8(s.out[1] + ahead, m, _mm512_extracti64x4_epi64(bytes, 1));
  } else {
    const auto m = static_cast<__mmask16>(s.mask);
    _mm_mask_storeu_epi8(s.out[0] + ahead, m, _mm512_castsi512_si128(bytes));
    if (s.out[1] != nullptr) _mm_mask_storeu_epi8(s.out[1] + ahead, m, _mm512_extracti32x4_epi32(bytes, 1));
    if (s.out[2] != nullptr) _mm_mask_storeu_epi8(s.out[2] + ahead, m, _mm512_extracti32x4_epi32(bytes, 2));
    if (s.out[3] != nullptr) _mm_mask_storeu_epi8(s.out[3] + ahead, m, _mm512_extracti32x4_epi32(bytes, 3));
  }
}

// The outputs at one column, `ahead` bytes behind column 0.
template <std::int64_t R>
[[gnu::always_inline]] inline void emit(const Strip& s, const __m512i (&sums)[4], std::int64_t ahead) {
  if (!s.d->use_fixed) return emit_checked(s, sums[0], sums[1], sums[2], sums[3], ahead);
  const float* ratio = s.d->fixed.ratio.data() + s.lane;
  const float* offset = s.d->fixed.offset.data() + s.lane;
  __m512i words[4];
  unroll<4>([&](auto v) { words[v] = to_words(sums[v], ratio + 16 * v, offset + 16 * v, s.lanes); });
  const __m512i low = _mm512_packs_epi32(_mm512_srai_epi32(words[0], 16), _mm512_srai_epi32(words[1], 16));
  const __m512i high = _mm512_packs_epi32(_mm512_srai_epi32(words[2], 16), _mm512_srai_epi32(words[3], 16));
  store<R>(s, _mm512_min_epu8(_mm512_max_epu8(_mm512_packus_epi16(low, high), s.lanes.lo), s.lanes.hi), ahead);
  if (!s.lanes.checked) return;
  const __m512i least = _mm512_min_epu16(_mm512_min_epu16(words[0], words[1]), _mm512_min_epu16(words[2], words[3]));
  if (__builtin_expect(_mm512_testn_epi32_mask(least, s.lanes.safe) != 0, 0)) {
    unroll<4>([&](auto v) {
      if (_mm512_testn_epi32_mask(words[v], s.lanes.safe) != 0) settle_strip(s, v, sums[v], words[v], ahead);
    });
  }
}

// P outputs side by side, from output column ox on: every column of the input is interleaved once. kInside: all columns
// are.
template <std::int64_t KW, std::int64_t SW, std::int64_t R, std::int64_t P, bool kInside>
void outputs(const Strip& s, std::int64_t ox) {
  const Depthwise& d = *s.d;
  __m512i sums[P][4];
  unroll<4>([&](auto v) {
    const __m512i start = _mm512_loadu_si512(s.start + 16 * v);
    unroll<P>([&](auto p) { sums[p][v] = start; });
  });
  const std::int64_t x0 = ox * SW + d.geometry.origin_x;
  const std::int64_t quads = d.quads;
  const std::int64_t stride = quads * 256;  // from one kx to the next
  const __mmask64 mask = s.mask;
  const std::int64_t width = d.geometry.width;
  const __m512i padding = padding_of(d);
  const std::int8_t* w = s.weights;
  for (std::int64_t quad = 0; quad < quads; ++quad, w += 256) {
    const auto k = static_cast<std::size_t>(quad * 4 * R);
    const std::uint8_t* rows[4 * R];
    std::int64_t steps[4 * R];
    for (std::size_t i = 0; i < 4 * R; ++i) {
      steps[i] = s.steps[k + i];
      rows[i] = s.rows[k + i] + x0 * steps[i];
    }
    unroll<(P - 1) * SW + KW>([&](auto i) {
      constexpr std::int64_t at = i;
      __m512i v[4];
      if (kInside || (x0 + at >= 0 && x0 + at < width)) {
        interleave(load_tap<R>(rows, steps, 0, mask), load_tap<R>(rows + R, steps + R, 0, mask),
                   load_tap<R>(rows + 2 * R, steps + 2 * R, 0, mask), load_tap<R>(rows + 3 * R, steps + 3 * R, 0, mask),
                   v);
      } else {
        for (__m512i& one : v) one = padding;
      }
      for (std::size_t n = 0; n < 4 * R; ++n) rows[n] += steps[n];
      unroll<P>([&](auto p) {
        constexpr std::int64_t kx = at - static_cast<std::int64_t>(p) * SW;
        if constexpr (kx >= 0 && kx < KW) {
          unroll<4>([&](auto c) {
            sums[p][c] = _mm512_dpbusd_epi32(sums[p][c], v[c],
                                             _mm512_load_si512(w + kx * stride + static_cast<std::int64_t>(c) * 64));
          });
        }
      });
    });
  }
  unroll<P>([&](auto p) { emit<R>(s, sums[p], (ox + static_cast<std::int64_t>(p)) * s.column); });
}

// Any width of the kernel, stride, dilation and number of planes.
template <std::int64_t R>
void any_row(const Strip& s) {
  const Depthwise& d = *s.d;
  for (std::int64_t ox = 0; ox < d.geometry.out_width; ++ox) {
    __m512i sums[4];
    for (std::size_t v = 0; v < 4; ++v) sums[v] = _mm512_loadu_si512(s.start + 16 * v);
    const std::int64_t x0 = ox * d.geometry.stride_w + d.geometry.origin_x;
    const std::int8_t* w = s.weights;
    for (std::int64_t kx = 0; kx < d.kernel_w; ++kx) {
      for (std::int64_t quad = 0; quad < d.quads; ++quad) {
        __m512i v[4];
        column<R>(s, quad, x0 + kx * d.dilation_w, v);
        for (std::int64_t part = 0; part < d.planes; ++part, w += 256) {
          for (std::size_t k = 0; k < 4; ++k) {
            sums[k] = _mm512_dpbusd_epi32(sums[k], v[k], _mm512_load_si512(w + k * 64));
          }
        }
      }
    }
    emit<R>(s, sums, ox * s.column);
  }
}

template <std::int64_t KW, std::int64_t SW, std::int64_t R, std::int64_t P>
void group(const Strip& s, std::int64_t ox) {
  const std::int64_t first = ox * SW + s.d->geometry.origin_x;
  if (first >= 0 && first + (P - 1) * SW + KW <= s.d->geometry.width) {
    outputs<KW, SW, R, P, true>(s, ox);
  } else {
    outputs<KW, SW, R, P, false>(s, ox);
  }
}

template <std::int64_t KW, std::int64_t SW, std::int64_t R>
void row(const Strip& s) {
  constexpr std::int64_t kTogether = 4;
  const std::int64_t width = s.d->geometry.out_width;
  std::int64_t ox = 0;
  for (; ox + kTogether <= width; ox += kTogether) group<KW, SW, R, kTogether>(s, ox);
  for (; ox + 2 <= width; ox += 2) group<KW, SW, R, 2>(s, ox);
  if (ox < width) group<KW, SW, R, 1>(s, ox);
}

using RowFunction = void (*)(const Strip& s);

template <std::int64_t R>
RowFunction row_function(const Depthwise& d) {
  if (d.dilation_w != 1 || d.planes != 1) return any_row<R>;
  if (d.kernel_w == 3 && d.geometry.stride_w == 1) return row<3, 1, R>;
  if (d.kernel_w == 3 && d.geometry.stride_w == 2) return row<3, 2, R>;
  if (d.kernel_w == 5 && d.geometry.stride_w == 1) return row<5, 1, R>;
  if (d.kernel_w == 5 && d.geometry.stride_w == 2) return row<5, 2, R>;
  return any_row<R>;
}

std::int64_t element_bytes(const Depthwise& d) { return d.raw ? 4 : 1; }

// `count` output rows of image n, from oy on, of a strip whose channels are set.
void place_rows(Strip& s, const std::uint8_t* in, std::uint8_t* out, std::int64_t n, std::int64_t oy,
                std::int64_t count) {
  const Depthwise& d = *s.d;
  const ConvGeometry& g = d.geometry;
  const std::int64_t rows = 64 / s.together;
  const std::uint8_t* padding = d.padding_row.data();
  for (std::int64_t r = 0; r < rows; ++r) {
    // Rows beyond the last are computed from padding and not stored.
    const bool there = r < count;
    s.out[static_cast<std::size_t>(r)] =
        there ? out + (n * g.out_image + (oy + r) * g.out_row + s.channel) * element_bytes(d) : nullptr;
    for (std::int64_t k = 0; k < 4 * d.quads; ++k) {
      const std::int64_t y = (oy + r) * g.stride_h + g.origin_y + k * d.dilation_h;
      const bool inside = there && k < d.kernel_h && y >= 0 && y < g.height;
      const auto at = static_cast<std::size_t>(k * rows + r);
      s.rows[at] = inside ? in + n * g.image_bytes + y * g.row_bytes + s.channel : padding;
      s.steps[at] = inside ? g.column_bytes : 0;
    }
  }
}

}  // namespace

void depthwise_avx512_vnni(const Depthwise& d, const std::uint8_t* in, const Requantize& q, std::uint8_t* out,
                           std::int64_t first, std::int64_t last) {
  if (d.quads > kMostQuads) return depthwise_portable(d, in, q, out, first, last);
  const ConvGeometry& g = d.geometry;
  Strip s{&d, {}, {}, nullptr, nullptr, 0, 0, 0, 64, 0, &q, FixedLanes(d.fixed), {}, g.out_column * element_bytes(d)};
  for (std::int64_t strip = 0; strip < d.strips; ++strip) {
    s.channel = strip * 64;
    s.lane = static_cast<std::size_t>(s.channel);
    s.channels = std::min<std::int64_t>(64, g.groups - s.channel);
    s.together = depthwise_strip_channels(s.channels);
    s.mask = s.channels == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << s.channels) - 1;
    s.weights = d.packed.data() + strip * d.kernel_w * d.quads * d.planes * 256;
    s.start = d.lane_start.data() + s.lane;
    const RowFunction function =
        s.together == 64 ? row_function<1>(d) : (s.together == 32 ? row_function<2>(d) : row_function<4>(d));
    for (std::int64_t r = first; r < last;) {
      const std::int64_t n = r / g.out_height;
      const std::int64_t oy = r % g.out_height;
      const std::int64_t count = std::min({64 / s.together, last - r, g.out_height - oy});
      place_rows(s, in, out, n, oy, count);
      function(s);
      r += count;
    }
  }
}

}  // namespace halfeven::kernels

#else  // another processor: the name stands, the portable code serves
#include "cpu/depthwise/depthwise.hpp"
namespace halfeven::kernels {
void depthwise_avx512_vnni(const Depthwise& d, const std::uint8_t* in, const Requantize& q, std::uint8_t* out,
                           std::int64_t first, std::int64_t last) {
  depthwise_portable(d, in, q, out, first, last);
}
}  // namespace halfeven::kernels
#endif
