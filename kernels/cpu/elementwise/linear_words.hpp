// Tables of 65,536 entries that are a straight line between two bounds: computed, not looked up.
#pragma once

#include <cstddef>
#include <cstdint>

namespace halfeven::kernels {

/// out = clamp(round_half_even(fma(in ^ in_flip, ratio, offset)), lo, hi) ^ out_flip. Before clamping no value exceeds
/// 2^30. Codes are counted from the least of their type: a flip is 0x8000 for int16, else 0.
struct LinearWords {
  double ratio = 0;
  double offset = 0;
  std::uint16_t in_flip = 0;
  std::uint16_t out_flip = 0;
  std::uint16_t lo = 0;
  std::uint16_t hi = 0;
};

/// The definition.
std::uint16_t linear_word(const LinearWords& f, std::uint16_t in);

using LinearWordsFunction = void (*)(const LinearWords& f, const std::uint16_t* in, std::uint16_t* out,
                                     std::int64_t first, std::int64_t last);
void linear_words_avx512(const LinearWords& f, const std::uint16_t* in, std::uint16_t* out, std::int64_t first,
                         std::int64_t last);

}  // namespace halfeven::kernels
