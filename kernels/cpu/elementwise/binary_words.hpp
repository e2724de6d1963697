// Sums and products of two 16-bit tensors, requantised exactly.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/requantize.hpp"
#include "cpu/conv/conv.hpp"

namespace halfeven::kernels {

/// The 32.16 form of a sum of two words (ratios times 2^16): a result is the upper 16 of the low 32 bits of the double
/// min(max(fma(a, ratio, fma(b, ratio2, offset)), least), most); the rest is as in FixedWords.
struct FixedWordsSum {
  double ratio = 0;
  double ratio2 = 0;
  double offset = 0;
  double least = 0;
  double most = 0;
  std::int32_t safe_bits = 0xFFFC;
};

/// Operands' values are (word ^ flip) - zero: signed ones are counted from their least, with 32768 added to the zero
/// point.
struct WordOperands {
  const std::uint16_t* a = nullptr;
  const std::uint16_t* b = nullptr;
  std::int32_t a_zero = 0;
  std::int32_t b_zero = 0;
  std::uint16_t a_flip = 0;  ///< 0x8000 for int16
  std::uint16_t b_flip = 0;
  /// Of products, or null: its sums are products plus `shift`, modulo 2^32, which puts them into the middle of int32.
  /// (They reach over less than 2^32 whatever the zero points are.)
  const FixedWords* fixed = nullptr;
  std::int32_t shift = 0;
  const FixedWordsSum* fixed_sum = nullptr;  ///< of sums and differences, or null
  bool product = false;                      ///< else q.ratio[0] belongs to a, q.ratio2 to b
  std::size_t b_period = 0;                  ///< 0: b is as large as a; else b[i / b_span * b_period + i % b_period]
  std::size_t b_span = SIZE_MAX;             ///< a multiple of b_period: an image, where each has its own b
};

/// Elements [first, last).
using BinaryWordsFunction = void (*)(const WordOperands& in, const Requantize& q, std::uint16_t* out, std::size_t first,
                                     std::size_t last);

void binary_words_portable(const WordOperands& in, const Requantize& q, std::uint16_t* out, std::size_t first,
                           std::size_t last);
void binary_words_avx2(const WordOperands& in, const Requantize& q, std::uint16_t* out, std::size_t first,
                       std::size_t last);
void binary_words_avx512(const WordOperands& in, const Requantize& q, std::uint16_t* out, std::size_t first,
                         std::size_t last);

/// The definition, for one element.
[[maybe_unused]] static inline std::uint16_t binary_word(const WordOperands& in, const Requantize& q, std::uint16_t a,
                                                         std::uint16_t b) {
  const std::int64_t x = (a ^ in.a_flip) - in.a_zero;
  const std::int64_t y = (b ^ in.b_flip) - in.b_zero;
  return static_cast<std::uint16_t>(in.product ? requantize(q, 0, x * y) : requantize(q, 0, x, y));
}

}  // namespace halfeven::kernels
