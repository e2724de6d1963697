// Multiply-add loops whose only limit are the multipliers: twelve sums that do not wait for each other.
#include <cstdint>

#ifdef __AVX512VNNI__
#include <immintrin.h>

namespace halfeven::bench {
namespace {

constexpr int kChains = 12;

template <class Step>
double spin(std::int64_t rounds, double operations, Step step) {
  __m512i sums[kChains];
  for (__m512i& s : sums) s = _mm512_setzero_si512();
  __m512i a = _mm512_set1_epi32(0x01020304);
  __m512i b = _mm512_set1_epi32(0x04030201);
  for (std::int64_t r = 0; r < rounds; ++r) {
    for (__m512i& s : sums) s = step(s, a, b);
    __asm__ volatile("" : "+v"(a), "+v"(b));
  }
  __m512i all = sums[0];
  for (int k = 1; k < kChains; ++k) all = _mm512_add_epi32(all, sums[k]);
  volatile std::int32_t sink = _mm512_reduce_add_epi32(all);
  static_cast<void>(sink);
  return static_cast<double>(rounds) * kChains * operations;
}

}  // namespace

double spin_vnni(std::int64_t rounds) {
  return spin(rounds, 128, [](__m512i s, __m512i a, __m512i b) { return _mm512_dpbusd_epi32(s, a, b); });
}

double spin_avx512(std::int64_t rounds) {
  return spin(rounds, 64, [](__m512i s, __m512i a, __m512i b) {
    return _mm512_add_epi32(s, _mm512_madd_epi16(_mm512_xor_si512(a, s), b));
  });
}

}  // namespace halfeven::bench

#else
namespace halfeven::bench {
double spin_vnni(std::int64_t) { return 0; }
double spin_avx512(std::int64_t) { return 0; }
}  // namespace halfeven::bench
#endif
