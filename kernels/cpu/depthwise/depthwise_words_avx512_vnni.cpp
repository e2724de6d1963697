// Depthwise convolution of 16-bit activations: what depthwise_avx512_vnni.cpp does, on the high bytes and then on the
// low ones.
#ifdef __AVX512VNNI__
#include <algorithm>
#include <array>
#include <utility>

#include "cpu/conv/fixed_avx512.hpp"
#include "cpu/depthwise/depthwise.hpp"
#include "cpu/words_avx512.hpp"

namespace halfeven::kernels {
namespace {

constexpr std::int64_t kMostQuads = kMostDepthwiseHeight / 4;  // of rows

// What a row of outputs of one strip needs.
struct Strip {
  const Depthwise* d;
  std::array<const std::uint8_t*, 4 * kMostQuads> rows;  // of the strip, at column 0
  std::array<std::int64_t, 4 * kMostQuads> steps;        // 0 for rows of padding
  const std::int8_t* weights;
  const std::int32_t* start;
  std::size_t lane;
  std::int64_t channel;
  __mmask64 mask;
  const Requantize* q;
  std::uint8_t* out;    // column 0
  std::int64_t column;  // bytes from one output to the next
  const WordLanes* words;
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

// Four rows at a column of a plane, which may be outside.
[[gnu::always_inline]] inline void column(const Strip& s, std::int64_t quad, std::int64_t x, std::int64_t plane,
                                          __m512i (&v)[4]) {
  if (x < 0 || x >= s.d->geometry.width) {
    const std::uint8_t padding = plane == 0 ? s.d->geometry.padding : s.d->low_padding;
    for (__m512i& one : v) one = _mm512_set1_epi8(static_cast<char>(padding));
    return;
  }
  const auto k = static_cast<std::size_t>(quad) * 4;
  const auto load = [&](std::size_t i) {
    return _mm512_maskz_loadu_epi8(s.mask, s.rows[k + i] + x * s.steps[k + i] + plane);
  };
  interleave(load(0), load(1), load(2), load(3), v);
}

// 16-bit results that the doubles leave open.
[[gnu::noinline, gnu::cold]] void settle_words(const Strip& s, std::int64_t vector, unsigned near, __m512i sums,
                                               std::uint16_t* out) {
  alignas(64) std::int32_t sum[16];
  _mm512_store_si512(sum, sums);
  for (std::int64_t lane = 0; lane < 16; ++lane) {
    const std::int64_t c = depthwise_byte(vector, lane);
    if (((near >> lane) & 1U) == 0 || ((s.mask >> c) & 1U) == 0) continue;
    out[c] = static_cast<std::uint16_t>(requantize(*s.q, static_cast<std::size_t>(s.channel + c), sum[lane]));
  }
}

[[gnu::noinline]] void emit_words(const Strip& s, __m512i v0, __m512i v1, __m512i v2, __m512i v3, std::uint8_t* out) {
  const WordLanes& w = *s.words;
  const __m512i sums[4] = {v0, v1, v2, v3};
  const double* ratio = s.d->lane_ratio.data() + s.lane;
  const double* offset = s.d->lane_offset.data() + s.lane;
  __m512i y[4];
  unsigned near[4] = {0, 0, 0, 0};
  unroll<4>([&](auto v) {
    const double* r = ratio + 16 * v;
    const double* o = offset + 16 * v;
    y[v] = round_doubles(_mm512_fmadd_pd(low_doubles(sums[v]), _mm512_loadu_pd(r), _mm512_loadu_pd(o)),
                         _mm512_fmadd_pd(high_doubles(sums[v]), _mm512_loadu_pd(r + 8), _mm512_loadu_pd(o + 8)), w,
                         near[v]);
  });
  // Each 128 bits of a hold the first 8 of 16 channels, of b the others.
  const auto pack = [&](__m512i low, __m512i high) {
    const __m512i words = _mm512_min_epu16(_mm512_max_epu16(_mm512_packus_epi32(low, high), w.lo), w.hi);
    return _mm512_xor_si512(words, w.flip);
  };
  const __m512i a = pack(y[0], y[1]);
  const __m512i b = pack(y[2], y[3]);
  const __m512i first = _mm512_permutex2var_epi64(a, _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0), b);
  const __m512i second = _mm512_permutex2var_epi64(a, _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4), b);
  auto* to = reinterpret_cast<std::uint16_t*>(out);
  _mm512_mask_storeu_epi16(to, static_cast<__mmask32>(s.mask), first);
  _mm512_mask_storeu_epi16(to + 32, static_cast<__mmask32>(s.mask >> 32), second);
  if (__builtin_expect((near[0] | near[1] | near[2] | near[3]) != 0, 0)) {
    unroll<4>([&](auto v) {
      if (near[v] != 0) settle_words(s, v, near[v], sums[v], to);
    });
  }
}

// P outputs side by side, from output column ox on: every column of the input is interleaved once. kInside: all columns
// are. kPlanes: of weights.
template <std::int64_t KW, std::int64_t SW, std::int64_t P, std::int64_t kPlanes, bool kInside>
void outputs(const Strip& s, std::int64_t ox) {
  const Depthwise& d = *s.d;
  __m512i sums[P][4];
  unroll<4>([&](auto v) {
    const __m512i start = _mm512_loadu_si512(s.start + 16 * v);
    unroll<P>([&](auto p) { sums[p][v] = start; });
  });
  const std::int64_t x0 = ox * SW + d.geometry.origin_x;
  const std::int64_t quads = d.quads;
  const std::int64_t stride = quads * kPlanes * 256;  // from one kx to the next
  const __mmask64 mask = s.mask;
  const std::int64_t last = d.plane_bytes;
  // Planes of the input pass through one loop, so that its code stands here once.
  for (std::int64_t plane = 0;; plane = last) {
    const std::int8_t* weights = s.weights;
    for (std::int64_t quad = 0; quad < quads; ++quad, weights += kPlanes * 256) {
      const auto k = static_cast<std::size_t>(quad) * 4;
      const std::int64_t step0 = s.steps[k];
      const std::int64_t step1 = s.steps[k + 1];
      const std::int64_t step2 = s.steps[k + 2];
      const std::int64_t step3 = s.steps[k + 3];
      const std::uint8_t* r0 = s.rows[k] + x0 * step0 + plane;
      const std::uint8_t* r1 = s.rows[k + 1] + x0 * step1 + plane;
      const std::uint8_t* r2 = s.rows[k + 2] + x0 * step2 + plane;
      const std::uint8_t* r3 = s.rows[k + 3] + x0 * step3 + plane;
      unroll<(P - 1) * SW + KW>([&](auto i) {
        constexpr std::int64_t at = i;
        __m512i v[4];
        if constexpr (kInside) {
          interleave(_mm512_maskz_loadu_epi8(mask, r0), _mm512_maskz_loadu_epi8(mask, r1),
                     _mm512_maskz_loadu_epi8(mask, r2), _mm512_maskz_loadu_epi8(mask, r3), v);
          r0 += step0;
          r1 += step1;
          r2 += step2;
          r3 += step3;
        } else {
          column(s, quad, x0 + at, plane, v);
        }
        unroll<static_cast<std::size_t>(kPlanes)>([&](auto part) {
          const std::int8_t* w = weights + static_cast<std::int64_t>(part) * 256;
          unroll<P>([&](auto p) {
            constexpr std::int64_t kx = at - static_cast<std::int64_t>(p) * SW;
            if constexpr (kx >= 0 && kx < KW) {
              unroll<4>([&](auto c) {
                sums[p][c] = _mm512_dpbusd_epi32(
                    sums[p][c], v[c], _mm512_load_si512(w + kx * stride + static_cast<std::int64_t>(c) * 64));
              });
            }
          });
        });
      });
    }
    if (plane == last) break;
    unroll<4>([&](auto v) { unroll<P>([&](auto p) { sums[p][v] = _mm512_slli_epi32(sums[p][v], 8); }); });
  }
  unroll<P>([&](auto p) {
    emit_words(s, sums[p][0], sums[p][1], sums[p][2], sums[p][3],
               s.out + (ox + static_cast<std::int64_t>(p)) * s.column);
  });
}

// Any width of the kernel, stride and dilation.
void output(const Strip& s, std::int64_t ox) {
  const Depthwise& d = *s.d;
  __m512i sums[4];
  for (std::size_t v = 0; v < 4; ++v) sums[v] = _mm512_loadu_si512(s.start + 16 * v);
  const std::int64_t x0 = ox * d.geometry.stride_w + d.geometry.origin_x;
  const std::int64_t last = d.plane_bytes;
  for (std::int64_t plane = 0;; plane = last) {
    const std::int8_t* w = s.weights;
    for (std::int64_t kx = 0; kx < d.kernel_w; ++kx) {
      for (std::int64_t quad = 0; quad < d.quads; ++quad) {
        __m512i v[4];
        column(s, quad, x0 + kx * d.dilation_w, plane, v);
        for (std::int64_t part = 0; part < d.planes; ++part, w += 256) {
          for (std::size_t k = 0; k < 4; ++k) {
            sums[k] = _mm512_dpbusd_epi32(sums[k], v[k], _mm512_load_si512(w + k * 64));
          }
        }
      }
    }
    if (plane == last) break;
    for (__m512i& sum : sums) sum = _mm512_slli_epi32(sum, 8);
  }
  emit_words(s, sums[0], sums[1], sums[2], sums[3], s.out + ox * s.column);
}

template <std::int64_t KW, std::int64_t SW, std::int64_t P, std::int64_t kPlanes>
void group(const Strip& s, std::int64_t ox) {
  const std::int64_t first = ox * SW + s.d->geometry.origin_x;
  if (first >= 0 && first + (P - 1) * SW + KW <= s.d->geometry.width) {
    outputs<KW, SW, P, kPlanes, true>(s, ox);
  } else {
    outputs<KW, SW, P, kPlanes, false>(s, ox);
  }
}

template <std::int64_t KW, std::int64_t SW>
void row(const Strip& s) {
  constexpr std::int64_t kTogether = 4;
  const std::int64_t width = s.d->geometry.out_width;
  std::int64_t ox = 0;
  for (; ox + kTogether <= width; ox += kTogether) group<KW, SW, kTogether, 1>(s, ox);
  switch (width - ox) {
    case 3: return group<KW, SW, 3, 1>(s, ox);
    case 2: return group<KW, SW, 2, 1>(s, ox);
    case 1: return group<KW, SW, 1, 1>(s, ox);
    default: return;
  }
}

using RowFunction = void (*)(const Strip& s);

void any_row(const Strip& s) {
  for (std::int64_t ox = 0; ox < s.d->geometry.out_width; ++ox) output(s, ox);
}

RowFunction row_function(const Depthwise& d) {
  if (d.dilation_w != 1 || d.planes != 1) return any_row;
  if (d.kernel_w == 3 && d.geometry.stride_w == 1) return row<3, 1>;
  if (d.kernel_w == 3 && d.geometry.stride_w == 2) return row<3, 2>;
  if (d.kernel_w == 5 && d.geometry.stride_w == 1) return row<5, 1>;
  if (d.kernel_w == 5 && d.geometry.stride_w == 2) return row<5, 2>;
  return any_row;
}

}  // namespace

void depthwise_words_avx512_vnni(const Depthwise& d, const std::uint8_t* in, const Requantize& q, std::uint8_t* out,
                                 std::int64_t first, std::int64_t last) {
  if (d.quads > kMostQuads) return depthwise_portable(d, in, q, out, first, last);
  const ConvGeometry& g = d.geometry;
  const RowFunction function = row_function(d);
  Strip s{&d, {}, {}, nullptr, nullptr, 0, 0, 0, &q, nullptr, 0, nullptr};
  const WordLanes words(q);
  s.words = &words;
  constexpr std::int64_t element = 2;
  const std::uint8_t* padding = in + d.padding_at;
  s.column = g.out_column * element;
  for (std::int64_t r = first; r < last; ++r) {
    const std::int64_t n = r / g.out_height;
    const std::int64_t oy = r % g.out_height;
    for (std::int64_t strip = 0; strip < d.strips; ++strip) {
      s.channel = strip * 64;
      s.lane = static_cast<std::size_t>(s.channel);
      const std::int64_t left = g.groups - s.channel;
      s.mask = left >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << left) - 1;
      s.weights = d.packed.data() + strip * d.kernel_w * d.quads * d.planes * 256;
      s.start = d.lane_start.data() + s.lane;
      s.out = out + (n * g.out_image + oy * g.out_row + s.channel) * element;
      for (std::int64_t k = 0; k < 4 * d.quads; ++k) {
        const std::int64_t y = oy * g.stride_h + g.origin_y + k * d.dilation_h;
        const bool inside = k < d.kernel_h && y >= 0 && y < g.height;
        const auto at = static_cast<std::size_t>(k);
        s.rows[at] = inside ? in + n * g.image_bytes + y * g.row_bytes + s.channel : padding + s.channel;
        s.steps[at] = inside ? g.column_bytes : 0;
      }
      function(s);
    }
  }
}

}  // namespace halfeven::kernels

#else  // another processor: the name stands, the portable code serves
#include "cpu/depthwise/depthwise.hpp"
namespace halfeven::kernels {
void depthwise_words_avx512_vnni(const Depthwise& d, const std::uint8_t* in, const Requantize& q, std::uint8_t* out,
                                 std::int64_t first, std::int64_t last) {
  depthwise_portable(d, in, q, out, first, last);
}
}  // namespace halfeven::kernels
#endif
