#ifdef __AVX512BW__
#include <immintrin.h>

#include "cpu/elementwise/lookup.hpp"

namespace halfeven::kernels {
namespace {

__attribute__((target("avx512f,avx512bw,avx512vbmi"))) void permute(const std::uint8_t* table, const std::uint8_t* in,
                                                                    std::uint8_t* out, std::size_t first,
                                                                    std::size_t last) {
  const __m512i t0 = _mm512_loadu_si512(table);
  const __m512i t1 = _mm512_loadu_si512(table + 64);
  const __m512i t2 = _mm512_loadu_si512(table + 128);
  const __m512i t3 = _mm512_loadu_si512(table + 192);
  for (std::size_t i = first; i < last; i += 64) {
    const std::size_t rest = last - i;
    const __mmask64 lanes = rest >= 64 ? ~__mmask64{0} : (__mmask64{1} << rest) - 1;
    const __m512i codes = _mm512_maskz_loadu_epi8(lanes, in + i);
    const __m512i low = _mm512_permutex2var_epi8(t0, codes, t1);
    const __m512i high = _mm512_permutex2var_epi8(t2, codes, t3);
    _mm512_mask_storeu_epi8(out + i, lanes, _mm512_mask_blend_epi8(_mm512_movepi8_mask(codes), low, high));
  }
}

}  // namespace

void lookup_avx512(const std::uint8_t* table, const std::uint8_t* in, std::uint8_t* out, std::size_t first,
                   std::size_t last) {
  static const bool permutes = __builtin_cpu_supports("avx512vbmi") != 0;
  (permutes ? permute : lookup_portable)(table, in, out, first, last);
}

}  // namespace halfeven::kernels

#else  // another processor: the name stands, the portable code serves
#include "cpu/elementwise/lookup.hpp"
namespace halfeven::kernels {
void lookup_avx512(const std::uint8_t* table, const std::uint8_t* in, std::uint8_t* out, std::size_t first,
                   std::size_t last) {
  lookup_portable(table, in, out, first, last);
}
}  // namespace halfeven::kernels
#endif
