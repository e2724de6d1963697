#include <cstdint>

#ifdef __AVX2__
#include <immintrin.h>

namespace halfeven::bench {

double spin_avx2(std::int64_t rounds) {
  constexpr int kChains = 8;
  __m256i sums[kChains];
  for (__m256i& s : sums) s = _mm256_setzero_si256();
  __m256i a = _mm256_set1_epi32(0x01020304);
  __m256i b = _mm256_set1_epi32(0x04030201);
  for (std::int64_t r = 0; r < rounds; ++r) {
    for (__m256i& s : sums) s = _mm256_add_epi32(s, _mm256_madd_epi16(_mm256_xor_si256(a, s), b));
    __asm__ volatile("" : "+x"(a), "+x"(b));
  }
  __m256i all = sums[0];
  for (int k = 1; k < kChains; ++k) all = _mm256_add_epi32(all, sums[k]);
  volatile std::int32_t sink = _mm256_extract_epi32(all, 0);
  static_cast<void>(sink);
  return static_cast<double>(rounds) * kChains * 32;
}

}  // namespace halfeven::bench

#else
namespace halfeven::bench {
double spin_avx2(std::int64_t) { return 0; }
}  // namespace halfeven::bench
#endif
