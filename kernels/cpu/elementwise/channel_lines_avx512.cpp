#include "cpu/elementwise/channel_lines.hpp"
#ifdef __AVX512BW__
#include "cpu/elementwise/quarters_avx512.hpp"

namespace halfeven::kernels {
namespace {

template <bool kTwo>
void run(const ChannelLines& f, const std::uint8_t* in, std::uint8_t* out, std::size_t first, std::size_t last) {
  const __m512i split = _mm512_set1_epi32(f.split);
  const __m512i lo = _mm512_set1_epi8(static_cast<char>(f.lo));
  const __m512i hi = _mm512_set1_epi8(static_cast<char>(f.hi));
  std::size_t phase = first % f.period;
  for (std::size_t i = first; i < last; i += 64) {
    const auto lanes = last - i >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << (last - i)) - 1;
    const __m512i codes = _mm512_maskz_loadu_epi8(lanes, in + i);
    const auto word = [&](__m512i quarter, std::size_t at) __attribute__((always_inline)) {
      const __m512i x = _mm512_sub_epi32(quarter, split);
      __m512 ratio = _mm512_loadu_ps(f.above.ratio.data() + at);
      __m512 offset = _mm512_loadu_ps(f.above.offset.data() + at);
      if constexpr (kTwo) {
        const __mmask16 below = _mm512_movepi32_mask(x);
        ratio = _mm512_mask_loadu_ps(ratio, below, f.below.ratio.data() + at);
        offset = _mm512_mask_loadu_ps(offset, below, f.below.offset.data() + at);
      }
      return _mm512_cvtps_epi32(_mm512_fmadd_ps(_mm512_cvtepi32_ps(x), ratio, offset));
    };
    const __m512i words[4] = {word(quarter<0>(codes), phase), word(quarter<1>(codes), phase + 16),
                              word(quarter<2>(codes), phase + 32), word(quarter<3>(codes), phase + 48)};
    _mm512_mask_storeu_epi8(out + i, lanes, join_quarters(words, lo, hi));
    phase += 64;
    if (phase == f.period) phase = 0;
  }
}

}  // namespace

void channel_lines_avx512(const ChannelLines& f, const std::uint8_t* in, std::uint8_t* out, std::size_t first,
                          std::size_t last) {
  f.below.ratio.empty() ? run<false>(f, in, out, first, last) : run<true>(f, in, out, first, last);
}

}  // namespace halfeven::kernels

#else  // no processor without it asks for this
namespace halfeven::kernels {
void channel_lines_avx512(const ChannelLines&, const std::uint8_t*, std::uint8_t*, std::size_t, std::size_t) {
  __builtin_trap();
}
}  // namespace halfeven::kernels
#endif
