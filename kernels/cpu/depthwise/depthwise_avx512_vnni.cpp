// vpdpwssd on pairs of taps: two 16-bit products a lane and instruction, exact.
#ifdef __AVX512VNNI__
#include "cpu/depthwise/depthwise.hpp"
#include "cpu/requantize_avx512.hpp"

namespace halfeven::kernels {

void depthwise_avx512_vnni(const ConvShape& s, const std::uint8_t* input, const DepthwiseWeights& weights,
                           const Requantize& q, std::uint8_t* out, std::int64_t first, std::int64_t last) {
  constexpr std::int64_t kMostPairs = 32;
  const RequantizeLanes lanes(q);
  const std::int64_t taps = s.kernel_h * s.kernel_w;
  const std::int64_t pairs = (taps + 1) / 2;
  if (pairs > kMostPairs) return depthwise_portable(s, input, weights, q, out, first, last);
  std::int64_t offset[2 * kMostPairs];
  for (std::int64_t t = 0; t < taps; ++t) {
    offset[t] = (t / s.kernel_w * s.dilation_h * s.width + t % s.kernel_w * s.dilation_w) * s.groups;
  }
  if (taps % 2 != 0) offset[taps] = offset[taps - 1];  // its weight is 0
  for (std::int64_t row = first; row < last; ++row) {
    const std::int64_t n = row / s.out_height;
    const std::int64_t y = row % s.out_height * s.stride_h;
    for (std::int64_t c = 0; c < s.groups; c += 16) {
      const std::int64_t left = s.groups - c;
      const auto mask = static_cast<__mmask16>(left >= 16 ? 0xFFFF : (1U << left) - 1);
      const __m512i start = _mm512_loadu_si512(weights.start.data() + c);
      const auto channel = static_cast<std::size_t>(c);
      for (std::int64_t ox = 0; ox < s.out_width; ++ox) {
        const std::uint8_t* in = input + ((n * s.height + y) * s.width + ox * s.stride_w) * s.groups + c;
        __m512i sum = start;
        const std::int16_t* w = weights.packed.data() + c * 2;
        for (std::int64_t p = 0; p < pairs; ++p, w += weights.stride * 2) {
          const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + offset[2 * p]));
          const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + offset[2 * p + 1]));
          const __m256i both = _mm256_set_m128i(_mm_unpackhi_epi8(a, b), _mm_unpacklo_epi8(a, b));
          sum = _mm512_dpwssd_epi32(sum, _mm512_cvtepu8_epi16(both), _mm512_loadu_si512(w));
        }
        const __m512i result = requantize_lanes(q, lanes, channel, sum, q.ratio + channel, q.offset + channel);
        _mm_mask_storeu_epi8(out + (row * s.out_width + ox) * s.groups + c, mask, _mm512_cvtepi32_epi8(result));
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
