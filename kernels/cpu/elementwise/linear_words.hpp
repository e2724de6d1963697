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
  /// Whether floor(fma(in ^ in_flip, ratio, offset + 1/2) in units of 2^-32) gives the same for all 65,536 codes: it is
  /// cheaper.
  bool units = false;
};

inline constexpr double kLinearUnit = 0x1p32;
inline constexpr double kLinearWhole = 0x1.8p52;  // doubles around it are whole
[[maybe_unused]] static inline double linear_offset(const LinearWords& f) {
  return (f.offset + 0.5) * kLinearUnit + kLinearWhole;
}
/// The definition of `units`.
std::uint16_t linear_word_in_units(const LinearWords& f, std::uint16_t in);

/// The definition.
std::uint16_t linear_word(const LinearWords& f, std::uint16_t in);

using LinearWordsFunction = void (*)(const LinearWords& f, const std::uint16_t* in, std::uint16_t* out,
                                     std::int64_t first, std::int64_t last);
void linear_words_avx512(const LinearWords& f, const std::uint16_t* in, std::uint16_t* out, std::int64_t first,
                         std::int64_t last);

}  // namespace halfeven::kernels
