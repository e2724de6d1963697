#ifdef __AVX2__
#include <immintrin.h>

#include "cpu/elementwise/lookup.hpp"

namespace halfeven::kernels {
namespace {

// Sixteen entries, broadcast, for the low four bits of the codes.
inline __m256i entries(const std::uint8_t* table, __m256i low) {
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table))),
                             low);
}

}  // namespace

void lookup_avx2(const std::uint8_t* table, const std::uint8_t* in, std::uint8_t* out, std::size_t first,
                 std::size_t last) {
  std::size_t i = first;
  for (; i + 32 <= last; i += 32) {
    const __m256i code = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i));
    const __m256i low = _mm256_and_si256(code, _mm256_set1_epi8(15));
    // Blends look at the highest bit of each byte.
    const __m256i bit4 = _mm256_slli_epi16(code, 3);
    const __m256i bit5 = _mm256_slli_epi16(code, 2);
    const __m256i bit6 = _mm256_slli_epi16(code, 1);
    const auto of_32 = [&](const std::uint8_t* t) {
      return _mm256_blendv_epi8(entries(t, low), entries(t + 16, low), bit4);
    };
    const auto of_64 = [&](const std::uint8_t* t) { return _mm256_blendv_epi8(of_32(t), of_32(t + 32), bit5); };
    const auto of_128 = [&](const std::uint8_t* t) { return _mm256_blendv_epi8(of_64(t), of_64(t + 64), bit6); };
    const __m256i result = _mm256_blendv_epi8(of_128(table), of_128(table + 128), code);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), result);
  }
  for (; i < last; ++i) out[i] = table[in[i]];
}

}  // namespace halfeven::kernels

#else  // another processor: the name stands, the portable code serves
#include "cpu/elementwise/lookup.hpp"
namespace halfeven::kernels {
void lookup_avx2(const std::uint8_t* table, const std::uint8_t* in, std::uint8_t* out, std::size_t first,
                 std::size_t last) {
  lookup_portable(table, in, out, first, last);
}
}  // namespace halfeven::kernels
#endif
