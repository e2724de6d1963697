// Sums and products of two 8-bit tensors of one shape, requantised exactly.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/requantize.hpp"

namespace halfeven::kernels {

/// A sum in 16.16: with the bytes themselves, round_half_even of the result is the high word of
/// int32(float(a) * ratio + (float(b) * ratio2 + offset)), ratios times 2^16, the zero points, 1/2 and a margin in the
/// offset, unless the low word has none of safe_bits: the error is less than the margin, so only then a tie may lie
/// between.
struct FixedSum {
  float ratio = 0;
  float ratio2 = 0;
  float offset = 0;
  std::int32_t safe_bits = 0;  ///< 0: there is no such form
};

/// Operands are bytes whose value is byte - zero (signed tensors are stored with 128 added).
struct BinaryOperands {
  const std::uint8_t* a;
  const std::uint8_t* b;
  std::int32_t a_zero;
  std::int32_t b_zero;
  std::size_t b_period = 0;       ///< 0: b is as large as a; else b[i / b_span * b_period + i % b_period]
  std::size_t b_span = SIZE_MAX;  ///< a multiple of b_period: an image, where each has its own b
  FixedSum fixed{};               ///< of a sum
};

/// q.ratio[0] belongs to a, q.ratio2 to b: a sum. A product has ratio only.
using BinaryFunction = void (*)(const BinaryOperands& in, const Requantize& q, std::uint8_t* out, std::size_t first,
                                std::size_t last);

void add_portable(const BinaryOperands& in, const Requantize& q, std::uint8_t* out, std::size_t first,
                  std::size_t last);
void multiply_portable(const BinaryOperands& in, const Requantize& q, std::uint8_t* out, std::size_t first,
                       std::size_t last);
void add_avx2(const BinaryOperands& in, const Requantize& q, std::uint8_t* out, std::size_t first, std::size_t last);
void multiply_avx2(const BinaryOperands& in, const Requantize& q, std::uint8_t* out, std::size_t first,
                   std::size_t last);
void add_avx512(const BinaryOperands& in, const Requantize& q, std::uint8_t* out, std::size_t first, std::size_t last);
void multiply_avx512(const BinaryOperands& in, const Requantize& q, std::uint8_t* out, std::size_t first,
                     std::size_t last);

}  // namespace halfeven::kernels
