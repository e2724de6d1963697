// Sums and products of two 8-bit tensors of one shape, requantised exactly.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/requantize.hpp"

namespace halfeven::kernels {

/// Operands are bytes whose value is byte - zero (signed tensors are stored with 128 added).
struct BinaryOperands {
  const std::uint8_t* a;
  const std::uint8_t* b;
  std::int32_t a_zero;
  std::int32_t b_zero;
  std::size_t b_period = 0;       ///< 0: b is as large as a; else b[i / b_span * b_period + i % b_period]
  std::size_t b_span = SIZE_MAX;  ///< a multiple of b_period: an image, where each has its own b
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
