// vpdpwssd on pairs of taps: two 16-bit products a lane and instruction, exact.
#ifdef __AVX512VNNI__
#include "cpu/depthwise/depthwise.hpp"
#include "cpu/requantize_avx512.hpp"

namespace halfeven::kernels {

namespace {

constexpr std::int64_t kMostPairs = 32;

struct Taps {
  std::int64_t pairs;
  std::int64_t offset[2 * kMostPairs];  // of each tap, from the first
};

// One row of outputs for sixteen channels, `kPixels` at a time: their sums are independent, so their latencies overlap.
template <std::int64_t kPixels>
void pixels(const ConvShape& s, const std::uint8_t* in, const DepthwiseWeights& weights, const Requantize& q,
            const RequantizeLanes& lanes, const Taps& taps, std::int64_t c, __mmask16 mask, std::uint8_t* out) {
  __m512i sums[kPixels];
  const __m512i start = _mm512_loadu_si512(weights.start.data() + c);
  for (__m512i& sum : sums) sum = start;
  const std::int64_t step = s.stride_w * s.groups;
  const std::int16_t* w = weights.packed.data() + c * 2;
  for (std::int64_t p = 0; p < taps.pairs; ++p, w += weights.stride * 2) {
    const __m512i factors = _mm512_loadu_si512(w);
    const std::uint8_t* a = in + taps.offset[2 * p];
    const std::uint8_t* b = in + taps.offset[2 * p + 1];
    for (std::int64_t k = 0; k < kPixels; ++k) {
      // Bytes of both taps side by side: one as it is, the other moved up by half a lane.
      const __m512i low = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a + k * step)));
      const __m512i high = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b + k * step)));
      sums[k] = _mm512_dpwssd_epi32(sums[k], _mm512_or_si512(low, _mm512_slli_epi32(high, 16)), factors);
    }
  }
  for (std::int64_t k = 0; k < kPixels; ++k) {
    const __m512i y = requantize_lanes(q, lanes, static_cast<std::size_t>(c), sums[k]);
    _mm_mask_storeu_epi8(out + k * s.groups, mask, _mm512_cvtepi32_epi8(y));
  }
}

}  // namespace

void depthwise_avx512_vnni(const ConvShape& s, const std::uint8_t* input, const DepthwiseWeights& weights,
                           const Requantize& q, std::uint8_t* out, std::int64_t first, std::int64_t last) {
  const RequantizeLanes lanes(q);
  const std::int64_t count = s.kernel_h * s.kernel_w;
  Taps taps{(count + 1) / 2, {}};
  if (taps.pairs > kMostPairs) return depthwise_portable(s, input, weights, q, out, first, last);
  for (std::int64_t t = 0; t < count; ++t) {
    taps.offset[t] = (t / s.kernel_w * s.dilation_h * s.width + t % s.kernel_w * s.dilation_w) * s.groups;
  }
  if (count % 2 != 0) taps.offset[count] = taps.offset[count - 1];  // its weight is 0
  for (std::int64_t row = first; row < last; ++row) {
    const std::int64_t n = row / s.out_height;
    const std::int64_t y = row % s.out_height * s.stride_h;
    for (std::int64_t c = 0; c < s.groups; c += 16) {
      const std::int64_t left = s.groups - c;
      const auto mask = static_cast<__mmask16>(left >= 16 ? 0xFFFF : (1U << left) - 1);
      const std::uint8_t* in = input + (n * s.height + y) * s.width * s.groups + c;
      std::uint8_t* to = out + row * s.out_width * s.groups + c;
      std::int64_t ox = 0;
      for (; ox + 4 <= s.out_width; ox += 4) {
        pixels<4>(s, in + ox * s.stride_w * s.groups, weights, q, lanes, taps, c, mask, to + ox * s.groups);
      }
      for (; ox < s.out_width; ++ox) {
        pixels<1>(s, in + ox * s.stride_w * s.groups, weights, q, lanes, taps, c, mask, to + ox * s.groups);
      }
    }
  }
}

}  // namespace halfeven::kernels

#else  // another processor: the name stands, the portable code serves
#include "cpu/depthwise/depthwise.hpp"
namespace halfeven::kernels {
void depthwise_avx512_vnni(const ConvShape& shape, const std::uint8_t* input, const DepthwiseWeights& weights,
                           const Requantize& requantize, std::uint8_t* out, std::int64_t first, std::int64_t last) {
  depthwise_portable(shape, input, weights, requantize, out, first, last);
}
}  // namespace halfeven::kernels
#endif
