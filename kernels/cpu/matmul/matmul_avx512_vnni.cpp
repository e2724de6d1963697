// vpdpbusd over tiles of up to 10 rows x 2 blocks of 16 columns; the sums never leave the registers.
#ifdef __AVX512VNNI__
#include <algorithm>
#include <array>
#include <utility>

#include "cpu/matmul/pack_quads.hpp"
#include "cpu/requantize_avx512.hpp"
#include "cpu/unroll.hpp"

namespace halfeven::kernels {
namespace {

// Four rows of 16 columns, interleaved.
[[gnu::always_inline]] inline __m512i interleave(const std::uint8_t* from, std::int64_t row, __mmask16 mask) {
  const __m128i r0 = _mm_maskz_loadu_epi8(mask, from);
  const __m128i r1 = _mm_maskz_loadu_epi8(mask, from + row);
  const __m128i r2 = _mm_maskz_loadu_epi8(mask, from + 2 * row);
  const __m128i r3 = _mm_maskz_loadu_epi8(mask, from + 3 * row);
  const __m128i low = _mm_unpacklo_epi8(r0, r1);
  const __m128i high = _mm_unpackhi_epi8(r0, r1);
  const __m128i low2 = _mm_unpacklo_epi8(r2, r3);
  const __m128i high2 = _mm_unpackhi_epi8(r2, r3);
  __m512i all = _mm512_castsi128_si512(_mm_unpacklo_epi16(low, low2));
  all = _mm512_inserti32x4(all, _mm_unpackhi_epi16(low, low2), 1);
  all = _mm512_inserti32x4(all, _mm_unpacklo_epi16(high, high2), 2);
  return _mm512_inserti32x4(all, _mm_unpackhi_epi16(high, high2), 3);
}

void pack(const MatMulRight& right, std::byte* to, std::int32_t* sums, std::int64_t first, std::int64_t last) {
  const __m512i ones = _mm512_set1_epi8(1);
  const __m512i flip = _mm512_set1_epi8(static_cast<char>(right.flip));
  const __m512i columns = _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                                             _mm512_set1_epi32(static_cast<int>(right.column)));
  const std::int64_t depth = matmul_depth(right.depth);
  const std::int64_t whole = right.depth / 4 * 4;
  for (std::int64_t b = first; b < last; ++b) {
    const std::int64_t left = right.columns - b * kMatMulBlock;
    if (right.column != 1 && right.row != 1) {
      pack_quads_block(right, to, sums, b);
      continue;
    }
    const auto mask = static_cast<__mmask16>(left >= kMatMulBlock ? 0xFFFF : (1U << left) - 1);
    // Columns beyond the last become 0, whatever the flip.
    const __m512i used = _mm512_maskz_mov_epi32(mask, flip);
    std::byte* block = to + b * kMatMulBlock * depth;
    const std::uint8_t* from = right.data + b * kMatMulBlock * right.column;
    __m512i sum = _mm512_setzero_si512();
    for (std::int64_t k = 0; k < whole; k += 4) {
      __m512i four = right.column == 1
                         ? interleave(from + k * right.row, right.row, mask)
                         : _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), mask, columns, from + k, 1);
      four = _mm512_xor_si512(four, used);
      sum = _mm512_dpbusd_epi32(sum, ones, four);
      _mm512_storeu_si512(block + k * kMatMulBlock, four);
    }
    if (whole != depth) {
      alignas(64) std::uint8_t rest[64] = {};
      for (std::int64_t c = 0; c < std::min(left, kMatMulBlock); ++c) {
        for (std::int64_t k = whole; k < right.depth; ++k) {
          rest[c * 4 + k - whole] = from[k * right.row + c * right.column] ^ right.flip;
        }
      }
      const __m512i four = _mm512_load_si512(rest);
      sum = _mm512_dpbusd_epi32(sum, ones, four);
      _mm512_storeu_si512(block + whole * kMatMulBlock, four);
    }
    _mm512_storeu_si512(sums + b * kMatMulBlock, sum);
  }
}

struct Tile {
  const MatMulTask* task;
  std::int64_t row;
  std::int64_t block;
};

// What becomes of sixteen sums.
struct ToBytes {
  const Requantize& q;
  const RequantizeLanes& lanes;
  std::uint8_t* out;

  [[gnu::always_inline]] void operator()(std::int64_t at, std::size_t column, __mmask16 mask, __m512i sums) const {
    const __m512i y = requantize_lanes(q, lanes, column, sums);
    _mm_mask_storeu_epi8(out + at, mask, _mm512_cvtepi32_epi8(y));
  }
};

struct ToIntegers {
  std::int32_t* out;

  [[gnu::always_inline]] void operator()(std::int64_t at, std::size_t, __mmask16 mask, __m512i sums) const {
    _mm512_mask_storeu_epi32(out + at, mask, sums);
  }
};

__attribute__((noinline, cold)) void fix_floats(const RoundToFloat& f, std::size_t column, unsigned open, __m512i sums,
                                                float* out) {
  alignas(64) std::int32_t values[16];
  _mm512_store_si512(values, sums);
  for (; open != 0; open &= open - 1) {
    const auto lane = static_cast<std::size_t>(__builtin_ctz(open));
    out[lane] = round_to_float(f, column + lane, values[lane]);
  }
}

struct ToFloats {
  const RoundToFloat& f;
  float* out;

  // Eight results; sets the bits of lanes that stay open.
  [[gnu::always_inline]] __m256 half(std::size_t column, __m256i sums, unsigned& open) const {
    const __m512d first = _mm512_mul_pd(_mm512_cvtepi32_pd(sums), _mm512_loadu_pd(f.ratio + column));
    const __m512d offset = _mm512_loadu_pd(f.offset + column);
    const __m512d t = _mm512_add_pd(_mm512_add_pd(first, offset), _mm512_setzero_pd());
    const __m512d e =
        _mm512_mul_pd(_mm512_add_pd(_mm512_abs_pd(first), _mm512_abs_pd(offset)), _mm512_set1_pd(kRoundToFloatError));
    const __m256 y = _mm512_cvtpd_ps(_mm512_sub_pd(t, e));
    const __m256 z = _mm512_cvtpd_ps(_mm512_add_pd(t, e));
    const unsigned safe = _mm512_cmp_pd_mask(_mm512_abs_pd(t), _mm512_set1_pd(kRoundToFloatLeast), _CMP_GE_OQ) |
                          _mm512_cmp_pd_mask(e, _mm512_setzero_pd(), _CMP_EQ_OQ);
    open = 0xFFU & ~(safe & _mm256_cmp_ps_mask(y, z, _CMP_EQ_OQ));
    if (f.wide_addend == nullptr) return y;
    const __m512d u = _mm512_add_pd(_mm512_cvtps_pd(y), _mm512_loadu_pd(f.wide_addend + column));
    const __m512d size = _mm512_abs_pd(u);
    const __m512d e2 = _mm512_mul_pd(size, _mm512_set1_pd(0x1p-52));
    const __m256 v = _mm512_cvtpd_ps(_mm512_sub_pd(u, e2));
    open |= 0xFFU & ~(_mm256_cmp_ps_mask(v, _mm512_cvtpd_ps(_mm512_add_pd(u, e2)), _CMP_EQ_OQ) &
                      _mm512_cmp_pd_mask(size, _mm512_set1_pd(kRoundToFloatLeast), _CMP_GE_OQ));
    return v;
  }

  [[gnu::always_inline]] void operator()(std::int64_t at, std::size_t column, __mmask16 mask, __m512i sums) const {
    unsigned low = 0;
    unsigned high = 0;
    const __m256 a = half(column, _mm512_castsi512_si256(sums), low);
    const __m256 b = half(column + 8, _mm512_extracti64x4_epi64(sums, 1), high);
    __m512 y = _mm512_insertf32x8(_mm512_castps256_ps512(a), b, 1);
    if (f.addend != nullptr) y = _mm512_add_ps(y, _mm512_loadu_ps(f.addend + column));
    _mm512_mask_storeu_ps(out + at, mask, y);
    const unsigned open = (low | (high << 8)) & mask;
    if (__builtin_expect(open != 0, 0)) fix_floats(f, column, open, sums, out + at);
  }
};

// M rows, B blocks.
template <std::size_t M, std::size_t B, class Finish>
void tile(const Tile& at, const Finish& finish) {
  const MatMulTask& t = *at.task;
  const std::int64_t depth = matmul_depth(t.depth);
  __m512i sums[M][B];
  unroll<B>([&](auto b) {
    const __m512i start = _mm512_loadu_si512(t.start + (at.block + static_cast<std::int64_t>(b)) * kMatMulBlock);
    unroll<M>([&](auto m) { sums[m][b] = start; });
  });
  const std::uint8_t* left = t.left + at.row * t.left_stride;
  const std::byte* right = t.right + at.block * kMatMulBlock * depth;
  for (std::int64_t k = 0; k < depth; k += 4) {
    __m512i factors[B];
    unroll<B>([&](auto b) {
      factors[b] = _mm512_loadu_si512(right + (static_cast<std::int64_t>(b) * depth + k) * kMatMulBlock);
    });
    unroll<M>([&](auto m) {
      std::int32_t four;
      std::memcpy(&four, left + static_cast<std::int64_t>(m) * t.left_stride + k, sizeof four);
      const __m512i x = _mm512_set1_epi32(four);
      unroll<B>([&](auto b) { sums[m][b] = _mm512_dpbusd_epi32(sums[m][b], x, factors[b]); });
    });
  }
  unroll<B>([&](auto b) {
    const std::int64_t n = (at.block + static_cast<std::int64_t>(b)) * kMatMulBlock;
    const std::int64_t left_columns = t.columns - n;
    const auto mask = static_cast<__mmask16>(left_columns >= kMatMulBlock ? 0xFFFF : (1U << left_columns) - 1);
    unroll<M>([&](auto m) {
      const std::int64_t row = at.row + static_cast<std::int64_t>(m);
      __m512i sum = sums[m][b];
      if (t.row_sums != nullptr) {
        sum = _mm512_add_epi32(
            sum, _mm512_mullo_epi32(_mm512_set1_epi32(t.row_sums[row]), _mm512_loadu_si512(t.row_factor + n)));
      }
      finish(row * t.columns + n, static_cast<std::size_t>(n), mask, sum);
    });
  });
}

// With more sums g++ 12 spills some of them in the loop, which halves the speed (measured: 8 x 3 and 12 x 2).
template <std::size_t B>
constexpr std::size_t kRows = B == 2 ? 10 : 16;

template <std::size_t B, class Finish>
void tile_of(std::int64_t rows, const Tile& at, const Finish& finish) {
  using Function = void (*)(const Tile&, const Finish&);
  static constexpr auto kTiles = []<std::size_t... M>(std::index_sequence<M...>) {
    return std::array<Function, sizeof...(M)>{tile<M + 1, B, Finish>...};
  }(std::make_index_sequence<kRows<B>>{});
  kTiles[static_cast<std::size_t>(rows - 1)](at, finish);
}

template <class Finish>
void multiply(const MatMulTask& t, const MatMulPart& part, const Finish& finish) {
  for (std::int64_t b = part.first_block; b < part.last_block; b += 2) {
    const bool pair = part.last_block - b > 1;
    const auto most = static_cast<std::int64_t>(pair ? kRows<2> : kRows<1>);
    const std::int64_t rows = part.last_row - part.first_row;
    const std::int64_t tiles = (rows + most - 1) / most;
    for (std::int64_t k = 0, r = part.first_row; k < tiles; ++k) {  // of nearly equal length
      const std::int64_t count = part.first_row + rows * (k + 1) / tiles - r;
      const Tile at{&t, r, b};
      if (pair) {
        tile_of<2>(count, at, finish);
      } else {
        tile_of<1>(count, at, finish);
      }
      r += count;
    }
  }
}

void bytes(const MatMulTask& t, const Requantize& q, std::uint8_t* out, const MatMulPart& part) {
  const RequantizeLanes lanes(q);
  multiply(t, part, ToBytes{q, lanes, out});
}

void floats(const MatMulTask& t, const RoundToFloat& f, float* out, const MatMulPart& part) {
  multiply(t, part, ToFloats{f, out});
}

void integers(const MatMulTask& t, std::int32_t* out, const MatMulPart& part) { multiply(t, part, ToIntegers{out}); }

}  // namespace

MatMulFunctions matmul_avx512_vnni() { return {1, pack, bytes, floats, integers}; }

}  // namespace halfeven::kernels

#else  // another processor: the name stands, the portable code serves
#include "cpu/matmul/matmul.hpp"
namespace halfeven::kernels {
MatMulFunctions matmul_avx512_vnni() { return matmul_portable(); }
}  // namespace halfeven::kernels
#endif
