// Requantisation of eight int32 lanes, AVX2. Only for files compiled for it.
#pragma once

#include <immintrin.h>

#include "common/requantize.hpp"

namespace halfeven::kernels {

/// `channels` results of sums for channels from `channel` on; what float32 leaves open is done one by one.
[[maybe_unused]] static inline void requantize_row_avx2(const Requantize& q, std::size_t channel,
                                                        const std::int32_t* sums, std::int64_t channels,
                                                        std::uint8_t* out) {
  std::int64_t c = 0;
  if (q.float_ratio != nullptr) {
    const __m256 tie = _mm256_set1_ps(0.5F - q.float_slack);
    const __m256 least = _mm256_set1_ps(static_cast<float>(q.lo - q.zero));
    const __m256 most = _mm256_set1_ps(static_cast<float>(q.hi - q.zero));
    const __m256 sign = _mm256_set1_ps(-0.0F);
    for (; c + 8 <= channels; c += 8) {
      const std::size_t at = channel + static_cast<std::size_t>(c);
      const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums + c));
      __m256 t = _mm256_fmadd_ps(_mm256_cvtepi32_ps(a), _mm256_loadu_ps(q.float_ratio + at),
                                 _mm256_loadu_ps(q.float_offset + at));
      t = _mm256_min_ps(_mm256_max_ps(t, least), most);
      const __m256 whole = _mm256_round_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      const __m256 rest = _mm256_andnot_ps(sign, _mm256_sub_ps(t, whole));
      auto near = static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(rest, tie, _CMP_GE_OQ)));
      const __m256i y = _mm256_add_epi32(_mm256_cvtps_epi32(whole), _mm256_set1_epi32(q.zero));
      alignas(32) std::int32_t lanes[8];
      _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), y);
      while (__builtin_expect(near != 0, 0)) {
        const auto lane = static_cast<std::size_t>(__builtin_ctz(near));
        near &= near - 1;
        lanes[lane] = requantize(q, at + lane, sums[c + static_cast<std::int64_t>(lane)]);
      }
      const __m128i low = _mm_load_si128(reinterpret_cast<const __m128i*>(lanes));
      const __m128i high = _mm_load_si128(reinterpret_cast<const __m128i*>(lanes + 4));
      const __m128i words = _mm_packs_epi32(low, high);
      _mm_storel_epi64(reinterpret_cast<__m128i*>(out + c), _mm_packus_epi16(words, words));
    }
  }
  for (; c < channels; ++c) {
    out[c] = static_cast<std::uint8_t>(requantize(q, channel + static_cast<std::size_t>(c), sums[c]));
  }
}

}  // namespace halfeven::kernels
