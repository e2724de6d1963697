// Products of 8-bit matrices: u8 left sides, any 8-bit right sides, exact int32 sums.
//
// The sum of (a - za) * (b - zb) is that of a * b' less row and column sums, b' = b - 128: sums wrap modulo 2^32, so
// only the result has to fit int32, not what is added up on the way.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/requantize.hpp"
#include "common/round_to_float.hpp"

namespace halfeven::kernels {

/// Columns of a block: what a packed right side consists of.
inline constexpr std::int64_t kMatMulBlock = 16;

inline std::int64_t matmul_blocks(std::int64_t columns) { return (columns + kMatMulBlock - 1) / kMatMulBlock; }
/// Rows of a packed right side, and the bytes of a row of the left side that may be read.
inline std::int64_t matmul_depth(std::int64_t depth) { return (depth + 3) / 4 * 4; }

/// How the right side lies before packing: element (k, n) at k * row + n * column.
struct MatMulRight {
  const std::uint8_t* data = nullptr;
  std::int64_t depth = 0;
  std::int64_t columns = 0;
  std::int64_t row = 0;
  std::int64_t column = 1;
  std::uint8_t flip = 0x80;  ///< xor that makes b' of a byte: 0x80 for unsigned ones, 0 for signed ones
};

/// One matrix product. Arrays by column are padded to whole blocks.
struct MatMulTask {
  const std::uint8_t* left = nullptr;  ///< [rows][left_stride], matmul_depth(depth) bytes of each row readable
  std::int64_t left_stride = 0;
  std::int64_t depth = 0;  ///< as given; packed zeros fill it up
  std::int64_t columns = 0;
  const std::byte* right = nullptr;          ///< packed by the same set of functions
  const std::int32_t* start = nullptr;       ///< by column: what each sum starts from
  const std::int32_t* row_sums = nullptr;    ///< by row; null where no right zero point needs it
  const std::int32_t* row_factor = nullptr;  ///< by column: what a row's sum is multiplied by
};

/// A part of a product: rows [first_row, last_row), blocks [first_block, last_block).
struct MatMulPart {
  std::int64_t first_row, last_row, first_block, last_block;
};

/// The functions of one instruction set.
struct MatMulFunctions {
  std::int64_t element;  ///< bytes of a packed element
  /// Packs blocks [first, last): `to` is the whole packed side, of matmul_blocks(columns) * 16 * matmul_depth(depth) *
  /// element bytes, 64-byte aligned; sums[n] becomes the sum of b' over column n, 0 beyond the last.
  void (*pack)(const MatMulRight& right, std::byte* to, std::int32_t* sums, std::int64_t first, std::int64_t last);
  /// Results lie in `out` as [rows][columns].
  void (*bytes)(const MatMulTask& task, const Requantize& q, std::uint8_t* out, const MatMulPart& part);
  void (*floats)(const MatMulTask& task, const RoundToFloat& f, float* out, const MatMulPart& part);
  void (*integers)(const MatMulTask& task, std::int32_t* out, const MatMulPart& part);
};

MatMulFunctions matmul_portable();
/// Needs AVX2 and FMA.
MatMulFunctions matmul_avx2();
/// Needs AVX-512 F, BW, DQ, VL and VNNI.
MatMulFunctions matmul_avx512_vnni();

/// sums[r] = the sum of the `depth` bytes of row r.
void matmul_row_sums(const std::uint8_t* left, std::int64_t stride, std::int64_t depth, std::int64_t first,
                     std::int64_t last, std::int32_t* sums);

}  // namespace halfeven::kernels
