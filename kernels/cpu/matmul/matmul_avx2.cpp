// vpmaddwd over pairs of 16-bit numbers: exact, unlike vpmaddubsw, whose sums of two products saturate.
#ifdef __AVX2__
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "cpu/matmul/matmul.hpp"

namespace halfeven::kernels {
namespace {

constexpr std::int64_t kTileRows = 4;
constexpr std::int64_t kChunk = 64;  // depth at once

// Blocks of 16 columns, per two rows 16 columns of two 16-bit numbers.
void pack(const MatMulRight& right, std::byte* to, std::int32_t* sums, std::int64_t first, std::int64_t last) {
  const std::int64_t depth = matmul_depth(right.depth);
  for (std::int64_t b = first; b < last; ++b) {
    auto* block = reinterpret_cast<std::int16_t*>(to) + b * kMatMulBlock * depth;
    for (std::int64_t c = 0; c < kMatMulBlock; ++c) {
      const std::int64_t n = b * kMatMulBlock + c;
      const std::uint8_t* from = right.data + n * right.column;
      std::int32_t sum = 0;
      for (std::int64_t k = 0; k < depth; ++k) {
        std::int8_t v = 0;
        if (n < right.columns && k < right.depth) v = static_cast<std::int8_t>(from[k * right.row] ^ right.flip);
        block[k / 2 * kMatMulBlock * 2 + c * 2 + k % 2] = v;
        sum += v;
      }
      sums[n] = sum;
    }
  }
}

// Rows [row, row + count) times a block: sums[count][16].
void tile(const MatMulTask& t, std::int64_t row, std::int64_t count, std::int64_t block, std::int32_t* sums) {
  const std::int64_t depth = matmul_depth(t.depth);
  const std::int64_t n = block * kMatMulBlock;
  const auto* right = reinterpret_cast<const std::int16_t*>(t.right) + n * depth;
  const auto* start = reinterpret_cast<const __m256i*>(t.start + n);
  __m256i low[kTileRows];
  __m256i high[kTileRows];
  for (std::int64_t m = 0; m < kTileRows; ++m) {
    low[m] = _mm256_loadu_si256(start);
    high[m] = _mm256_loadu_si256(start + 1);
  }
  alignas(32) std::int16_t left[kTileRows][kChunk] = {};
  for (std::int64_t from = 0; from < depth; from += kChunk) {
    const std::int64_t length = std::min(kChunk, depth - from);
    for (std::int64_t m = 0; m < count; ++m) {
      const std::uint8_t* bytes = t.left + (row + m) * t.left_stride + from;
      std::int64_t k = 0;
      for (; k + 16 <= length; k += 16) {
        const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + k));
        _mm256_store_si256(reinterpret_cast<__m256i*>(left[m] + k), _mm256_cvtepu8_epi16(x));
      }
      for (; k < length; ++k) left[m][k] = bytes[k];
    }
    for (std::int64_t k = 0; k < length; k += 2, right += kMatMulBlock * 2) {
      const __m256i w0 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(right));
      const __m256i w1 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(right) + 1);
#pragma GCC unroll 4
      for (std::int64_t m = 0; m < kTileRows; ++m) {
        std::int32_t two;
        std::memcpy(&two, left[m] + k, sizeof two);
        const __m256i x = _mm256_set1_epi32(two);
        low[m] = _mm256_add_epi32(low[m], _mm256_madd_epi16(x, w0));
        high[m] = _mm256_add_epi32(high[m], _mm256_madd_epi16(x, w1));
      }
    }
  }
  for (std::int64_t m = 0; m < count; ++m) {
    auto* to = reinterpret_cast<__m256i*>(sums + m * kMatMulBlock);
    if (t.row_sums != nullptr) {
      const __m256i s = _mm256_set1_epi32(t.row_sums[row + m]);
      const auto* factor = reinterpret_cast<const __m256i*>(t.row_factor + n);
      low[m] = _mm256_add_epi32(low[m], _mm256_mullo_epi32(s, _mm256_loadu_si256(factor)));
      high[m] = _mm256_add_epi32(high[m], _mm256_mullo_epi32(s, _mm256_loadu_si256(factor + 1)));
    }
    _mm256_storeu_si256(to, low[m]);
    _mm256_storeu_si256(to + 1, high[m]);
  }
}

// finish(row, column, count, sums) for every row of 16 sums.
template <class Finish>
void multiply(const MatMulTask& t, const MatMulPart& part, Finish finish) {
  alignas(32) std::int32_t sums[kTileRows * kMatMulBlock];
  for (std::int64_t b = part.first_block; b < part.last_block; ++b) {
    const std::int64_t n = b * kMatMulBlock;
    for (std::int64_t r = part.first_row; r < part.last_row; r += kTileRows) {
      const std::int64_t count = std::min(kTileRows, part.last_row - r);
      tile(t, r, count, b, sums);
      for (std::int64_t m = 0; m < count; ++m) {
        finish(r + m, n, std::min(kMatMulBlock, t.columns - n), sums + m * kMatMulBlock);
      }
    }
  }
}

// Four results as int32, zero point added, clamped; sets the bits of lanes too close to a tie.
__m128i requantize_four(const Requantize& q, std::size_t column, __m128i sums, unsigned& near) {
  __m256d t =
      _mm256_fmadd_pd(_mm256_cvtepi32_pd(sums), _mm256_loadu_pd(q.ratio + column), _mm256_loadu_pd(q.offset + column));
  t = _mm256_min_pd(_mm256_max_pd(t, _mm256_set1_pd(-1e9)), _mm256_set1_pd(1e9));
  const __m256d r = _mm256_round_pd(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m256d distance = _mm256_andnot_pd(_mm256_set1_pd(-0.0), _mm256_sub_pd(t, r));
  near = q.slack > 0 ? static_cast<unsigned>(
                           _mm256_movemask_pd(_mm256_cmp_pd(distance, _mm256_set1_pd(0.5 - q.slack), _CMP_GE_OQ)))
                     : 0;
  const __m128i y = _mm_add_epi32(_mm256_cvtpd_epi32(r), _mm_set1_epi32(q.zero));
  return _mm_min_epi32(_mm_max_epi32(y, _mm_set1_epi32(q.lo)), _mm_set1_epi32(q.hi));
}

void bytes(const MatMulTask& t, const Requantize& q, std::uint8_t* out, const MatMulPart& part) {
  multiply(t, part, [&](std::int64_t r, std::int64_t n, std::int64_t count, const std::int32_t* sums) {
    alignas(32) std::int32_t y[kMatMulBlock];
    unsigned near = 0;
    for (int k = 0; k < 16; k += 4) {
      unsigned four = 0;
      const __m128i s = _mm_loadu_si128(reinterpret_cast<const __m128i*>(sums + k));
      _mm_store_si128(reinterpret_cast<__m128i*>(y + k), requantize_four(q, static_cast<std::size_t>(n + k), s, four));
      near |= four << k;
    }
    near &= (1U << count) - 1;
    for (; near != 0; near &= near - 1) {
      const int k = __builtin_ctz(near);
      y[k] = requantize(q, static_cast<std::size_t>(n + k), sums[k]);
    }
    std::uint8_t* to = out + r * t.columns + n;
    for (std::int64_t k = 0; k < count; ++k) to[k] = static_cast<std::uint8_t>(y[k]);
  });
}

void floats(const MatMulTask& t, const RoundToFloat& f, float* out, const MatMulPart& part) {
  multiply(t, part, [&](std::int64_t r, std::int64_t n, std::int64_t count, const std::int32_t* sums) {
    float* to = out + r * t.columns + n;
    for (std::int64_t k = 0; k < count; ++k) to[k] = round_to_float(f, static_cast<std::size_t>(n + k), sums[k]);
  });
}

void integers(const MatMulTask& t, std::int32_t* out, const MatMulPart& part) {
  multiply(t, part, [&](std::int64_t r, std::int64_t n, std::int64_t count, const std::int32_t* sums) {
    std::copy_n(sums, count, out + r * t.columns + n);
  });
}

}  // namespace

MatMulFunctions matmul_avx2() { return {2, pack, bytes, floats, integers}; }

}  // namespace halfeven::kernels

#else  // another processor: the name stands, the portable code serves
#include "cpu/matmul/matmul.hpp"
namespace halfeven::kernels {
MatMulFunctions matmul_avx2() { return matmul_portable(); }
}  // namespace halfeven::kernels
#endif
